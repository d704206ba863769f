import fc from 'fast-check';

import { accountDecider, type AccountCommand } from '../../src/features/accounts/aggregate/accounts.decider.ts';
import { accountsProjection } from '../../src/features/accounts/accounts.projection.ts';
import { readAccount } from '../../src/features/accounts/accounts.table.ts';
import { agentDecider } from '../../src/features/agents/aggregate/agents.decider.ts';
import { agentsProjection } from '../../src/features/agents/agents.projection.ts';
import { readAgent } from '../../src/features/agents/agents.table.ts';
import { apiKeyDecider } from '../../src/features/api-keys/api-keys.decider.ts';
import { apiKeysProjection } from '../../src/features/api-keys/api-keys.projection.ts';
import { readIssuedKey } from '../../src/features/api-keys/api-keys.table.ts';
import { computerDecider } from '../../src/features/computers/aggregate/computers.decider.ts';
import { computersProjection } from '../../src/features/computers/rows/computers.projection.ts';
import { readComputer } from '../../src/features/computers/rows/computers.table.ts';
import { subscriptionDecider } from '../../src/features/subscriptions/subscriptions.decider.ts';
import { subscriptionsProjection } from '../../src/features/subscriptions/subscriptions.projection.ts';
import { readSubscription } from '../../src/features/subscriptions/subscriptions.table.ts';
import { eventDefinitions } from '../../src/app.module.ts';
import { absentState, applyEvents, type StreamState } from '../../src/eventsourcing/aggregates/stream-state.ts';
import { EventCatalogue } from '../../src/eventsourcing/event-store/event-catalogue.ts';
import { idOf, type StoredEvent } from '../../src/eventsourcing/event-store/event-store.ts';
import type { Projection } from '../../src/eventsourcing/projections/projection.ts';
import { Replay } from '../../src/eventsourcing/projections/tables/replay.ts';
import { ProblemError } from '../../src/kernel/errors/problem-error.ts';
import { type AnyDecider, eventsOf } from './snapshots.ts';

/** Checks that what a write is answered with, from the state that it has left, is the row that a read finds later. */

interface Written {
  name: string;
  category: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- each projection is typed by its own rows
  projection: Projection<any>;
  decider: AnyDecider;
  /** Returns the answer to a write of the stream with that id, which has left this state. */
  // oxlint-disable-next-line typescript/no-explicit-any -- each decider is typed by its own states
  answerOf: (id: string, state: StreamState<any>) => object;
}

const sandboxes: Written[] = [
  {
    name: 'an agent',
    category: 'agent',
    projection: agentsProjection,
    decider: agentDecider,
    answerOf: (id, state) => readAgent(id, state, null),
  },
  {
    name: 'a computer',
    category: 'computer',
    projection: computersProjection,
    decider: computerDecider,
    answerOf: (id, state) => readComputer(id, state, null),
  },
];
const subscription: Written = {
  name: 'a subscription',
  category: 'subscription',
  projection: subscriptionsProjection,
  decider: subscriptionDecider,
  answerOf: (_, state) => readSubscription(state),
};
const apiKey: Written = {
  name: 'an API key',
  category: 'apiKey',
  projection: apiKeysProjection,
  decider: apiKeyDecider,
  answerOf: (_, state) => readIssuedKey(state),
};
const account: Written = {
  name: 'an account',
  category: 'account',
  projection: accountsProjection,
  decider: accountDecider,
  answerOf: (id, state) => readAccount(id, state, null),
};

const catalogue = new EventCatalogue(eventDefinitions);

/** Returns the events as one stream would hold them in this order, each at a time of its own. */
function inOneStream(events: readonly Pick<StoredEvent, 'type' | 'data' | 'stream'>[]): StoredEvent[] {
  const [{ stream }] = events as [StoredEvent];
  const metadata = {
    actor: { kind: 'system' as const, id: 't', name: 't' },
    account_id: 'a',
    request_id: null,
    causation_id: null,
    ip: null,
  };
  return events.map(({ type, data }, revision) => ({
    id: `event ${revision}`,
    stream,
    type,
    data,
    schemaVersion: 1,
    revision,
    position: String(revision + 1).padStart(20, '0'),
    at: new Date(Date.UTC(2026, 0, 1) + revision * 1_001).toISOString(),
    metadata,
  }));
}

/** Holds the answer against the row after each of the events, where there is a row. Returns the number of rows that there were. */
function compare({ projection, decider, answerOf }: Written, events: StoredEvent[]): number {
  const replay = new Replay(projection);
  let state = absentState<unknown>(decider);
  let compared = 0;
  for (const event of events) {
    replay.apply(event);
    state = applyEvents(decider, state, [event]);
    const row = replay.read(idOf(event.stream));
    if (row === undefined) continue;
    // An answer may have more than the projection's row, as the last use.
    expect(answerOf(idOf(event.stream), state)).toMatchObject(row);
    compared += 1;
  }
  return compared;
}

describe('a write is answered with what a later read shows', () => {
  it.each([...sandboxes, subscription].map((written) => [written.name, written] as const))('of %s, after any events', (_, written) => {
    const [first, ...others] = eventsOf(written.category, catalogue) as [StoredEvent, ...StoredEvent[]];
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...others), { maxLength: 30 }), (chosen) => {
        expect(compare(written, inOneStream([first, ...chosen.filter(({ stream }) => stream === first.stream)]))).toBeGreaterThan(0);
      }),
      { numRuns: 300 },
    );
  });

  it('of an API key that was issued', () => {
    const issued = eventsOf('apiKey', catalogue).filter(({ type }) => type === 'ApiKeyIssued');
    expect(issued.length).toBeGreaterThan(0);
    for (const event of issued) expect(compare(apiKey, inOneStream([event]))).toBe(1);
  });

  it('of an account, whatever plans it got, and agents and computers it has had', () => {
    const ids = fc.constantFrom('one', 'two', 'three');
    const commands = fc.array(
      fc.oneof(
        fc.record({
          type: fc.constant('AssignPlan' as const),
          name: fc.constantFrom('small', 'large'),
          seats: fc.nat(3),
          paymentMethod: fc.boolean(),
          computers: fc.option(fc.nat(3), { nil: undefined }),
        }),
        fc.record({ type: fc.constant('TakeSeat' as const), agentId: ids, externalId: fc.option(ids) }),
        fc.record({ type: fc.constant('ReleaseSeat' as const), agentId: ids }),
        fc.record({ type: fc.constant('TakeComputerSeat' as const), computerId: ids, endUserId: ids }),
        fc.record({ type: fc.constant('ReleaseComputerSeat' as const), computerId: ids }),
        fc.record({ type: fc.constant('SignIn' as const), sessionId: ids, expiresAt: fc.constant('then') }),
      ),
      { maxLength: 40 },
    );
    fc.assert(
      fc.property(commands, (asked) => {
        const events = decided([{ type: 'OpenAccount', name: 'Ann', role: 'member' }, ...asked]);
        expect(compare(account, inOneStream(events))).toBe(events.length);
      }),
      { numRuns: 300 },
    );
  });
});

/** Returns the events of the account that the commands lead to; those that are refused lead to none. */
function decided(commands: AccountCommand[]): Pick<StoredEvent, 'type' | 'data' | 'stream'>[] {
  let state = accountDecider.initialState();
  return commands.flatMap((command): Pick<StoredEvent, 'type' | 'data' | 'stream'>[] => {
    try {
      const events = accountDecider.decide(command, state, new Date());
      state = events.reduce((before, event) => accountDecider.evolve(before, event), state);
      return events.map(({ type, data }) => ({ type, data: data as StoredEvent['data'], stream: 'account-acme' }));
    } catch (error) {
      if (error instanceof ProblemError) return [];
      throw error;
    }
  });
}
