import fc from 'fast-check';
import { v5 as uuidv5 } from 'uuid';

import { owner, steps, walk } from '../../../../test/support/agent-arbitraries.ts';
import { settings as created } from '../../../../test/support/agents.ts';
import { fold, NOON } from '../../../../test/support/decider-spec.ts';
import { agentDecider } from '../../agents/aggregate/agents.decider.ts';
import { agentStream, type AgentEvent } from '../../agents/index.ts';
import { environmentDecider, type EnvironmentEvent } from '../../environment/index.ts';
import type { Sealed } from '../../../crypto/keyring.ts';
import type { StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import { differences } from './differences.ts';
import { AgentReplay, type PastAgent } from './agent-replay.ts';
import { DiffBuilder } from './time-travel.handlers.ts';

/** Checks for random lives of an agent that its past state is the fold of the events up to that moment, and nothing else. */

const agentId = '01890a5d-ac96-774b-bcce-b302099a8057';
const sealed: Sealed = { v: 1, key: 1, iv: 'aXY=', ct: 'Y3Q=' };

interface Setting {
  key: string;
  value: string | null;
  secret: boolean;
}

const settings = fc.array(
  fc.record({
    key: fc.constantFrom('A', 'B', 'TOKEN'),
    value: fc.option(fc.constantFrom('one', 'two', 'a longer value'), { freq: 4 }),
    secret: fc.boolean(),
  }),
  { minLength: 61, maxLength: 61, size: 'max' },
);

/** Returns the agent's stream: the events of its life, with changes of its variables by the owner between them. */
function streamOf(plan: Parameters<typeof walk>[0], changes: readonly Setting[]): StoredEvent[] {
  const stream: StoredEvent[] = [];
  let environment = environmentDecider.initialState();
  const append = (events: readonly (AgentEvent | EnvironmentEvent)[], at: Date): void => {
    for (const event of events) {
      environment = environmentDecider.evolve(environment, event as EnvironmentEvent);
      stream.push(storedAt(event, stream.length, at));
    }
  };
  const change = ({ key, value, secret }: Setting, at: Date) => {
    const base = { accountId: owner, key };
    const sealedValue = { plain: value ?? '', sealed, mask: '••••••••' };
    try {
      const command =
        value === null
          ? { type: 'RemoveVariable' as const, ...base }
          : { type: 'SetVariable' as const, ...base, isSecret: secret, value: sealedValue };
      append(environmentDecider.decide(command, environment, at), at);
    } catch (error) {
      if (!(error instanceof ProblemError)) throw error;
    }
  };
  append(agentDecider.decide({ type: 'ProvisionAgent', accountId: owner, externalId: null, settings: created }, null, NOON), NOON);
  let step = 0;
  walk(plan, (_before, _after, events, at) => {
    append(events, at);
    change(changes[step++] as Setting, at);
  });
  return stream;
}

function storedAt({ type, data }: { type: string; data: unknown }, revision: number, at: Date): StoredEvent {
  const actor = { kind: 'session' as const, id: owner, name: 'Ann' };
  return {
    id: uuidv5(String(revision), agentId),
    type,
    schemaVersion: 1,
    data: structuredClone(data) as StoredEvent['data'],
    metadata: { actor, account_id: owner, request_id: null, causation_id: null, ip: null },
    stream: agentStream(agentId),
    revision,
    position: String(revision).padStart(20, '0'),
    at: at.toISOString(),
  };
}

function stateAfter(events: readonly StoredEvent[]): PastAgent {
  const replay = new AgentReplay(agentId);
  for (const event of events) replay.apply(event);
  return replay.view();
}

function diffOf(stream: readonly StoredEvent[], from: number, to: number) {
  const walked = new DiffBuilder(agentId, from);
  for (const event of stream.slice(0, to + 1)) walked.apply(event);
  return walked.result();
}

/** Returns the state with its variables by key, as the paths of a diff name them. */
const byKey = ({ env, ...others }: PastAgent) => structuredClone({ ...others, env: Object.fromEntries(env.map((one) => [one.key, one])) });

function applied(state: object, changes: readonly { path: string; before: unknown; after: unknown }[]): object {
  for (const { path, before, after } of changes) {
    const names = path.split('/').slice(1);
    const last = names.pop() as string;
    const place = names.reduce((at, name) => at[name] as Record<string, unknown>, state as Record<string, unknown>);
    expect(place[last] ?? null).toEqual(before);
    if (after === null && names[0] === 'env') delete place[last];
    else place[last] = after;
  }
  return state;
}

const lives = fc.tuple(steps, settings).map(([plan, changes]) => streamOf(plan, changes));

it('is the fold of the events up to each revision, with the replay and with the deciders', () => {
  fc.assert(
    fc.property(lives, (stream) => {
      const replay = new AgentReplay(agentId);
      for (const [index, event] of stream.entries()) {
        replay.apply(event);
        const prefix = stream.slice(0, index + 1);
        const then = replay.view();
        expect(then).toEqual(stateAfter(prefix));
        const state = fold(agentDecider, prefix as unknown as AgentEvent[]);
        const isGone = state === null || state.status === 'deleted';
        expect(then.agent && [then.agent.status, then.agent.message, then.agent.name, then.agent.deployment_id]).toEqual(
          isGone ? null : [state.status, state.message, state.settings.name, state.deployment?.id ?? null],
        );
        const environment = prefix.reduce(
          (before, each) => environmentDecider.evolve(before, each as unknown as EnvironmentEvent),
          environmentDecider.initialState(),
        );
        expect(then.env.map(({ key }) => key)).toEqual(isGone ? [] : [...environment.variables.keys()].toSorted());
        if (then.deployment !== null) expect(then.deployment.id).toBe(state?.deployment?.id);
      }
    }),
    { numRuns: 60 },
  );
});

it('diffs lead from one state to the other, and name events between them', () => {
  fc.assert(
    fc.property(lives, fc.nat(), fc.nat(), (stream, one, other) => {
      const [from, to] = [one % stream.length, other % stream.length].toSorted((a, b) => a - b) as [number, number];
      const { earlier, later, changes } = diffOf(stream, from, to);
      expect([earlier.revision, later.revision]).toEqual([from, to]);
      const state = byKey(stateAfter(stream.slice(0, from + 1)));
      expect(applied(state, changes)).toEqual(byKey(stateAfter(stream.slice(0, to + 1))));
      const between = new Set(stream.slice(from + 1, to + 1).map(({ id }) => id));
      for (const { event_id } of changes) expect(between).toContain(event_id);
    }),
    { numRuns: 300 },
  );
});

it('names the last event that made each change: one step before, the member had another value', () => {
  fc.assert(
    fc.property(lives, fc.nat(), (stream, one) => {
      const from = one % stream.length;
      for (const { path, event_id } of diffOf(stream, from, stream.length - 1).changes) {
        const at = stream.findIndex(({ id }) => id === event_id);
        const paths = (first: number, last: number) => diffOf(stream, first, last).changes.map((change) => change.path);
        const touched = (found: string[]) =>
          found.some((each) => each === path || each.startsWith(`${path}/`) || path.startsWith(`${each}/`));
        expect(touched(paths(at - 1, at))).toBe(true);
        for (let later = at + 1; later < stream.length; later++) expect(touched(paths(later - 1, later))).toBe(false);
      }
    }),
    { numRuns: 5 },
  );
});

it('lists differences by their path from the root, and compares lists as a whole', () => {
  expect(differences({ a: 1, b: { c: [1], d: null }, e: null }, { a: 2, b: { c: [2], d: null }, f: { g: 1 } })).toEqual([
    { path: '/a', before: 1, after: 2 },
    { path: '/b/c', before: [1], after: [2] },
    { path: '/f', before: null, after: { g: 1 } },
  ]);
  expect(differences({ agent: { a: 1 } }, { agent: null })).toEqual([{ path: '/agent', before: { a: 1 }, after: null }]);
});
