import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

import fc from 'fast-check';

import { accountDecider } from '../../src/accounts/aggregate/accounts.decider.ts';
import { SeatMap } from '../../src/accounts/aggregate/seat-map.decider.ts';
import { agentDecider } from '../../src/agents/aggregate/agents.decider.ts';
import { eventDefinitions } from '../../src/app.module.ts';
import { customFilesDecider } from '../../src/custom-files/custom-files.decider.ts';
import { environmentDecider } from '../../src/environment/environment.decider.ts';
import { execDecider } from '../../src/exec/exec.decider.ts';
import { filesDecider } from '../../src/files/files.decider.ts';
import { secretsDecider } from '../../src/secrets/secrets.decider.ts';
import { sourceCredentialsDecider } from '../../src/secrets/source-credentials.decider.ts';
import { subscriptionDecider } from '../../src/subscriptions/subscriptions.decider.ts';
import { conversationDecider } from '../../src/messages/conversations/conversations.decider.ts';
import { EventCatalogue } from '../../src/platform/event-store/event-catalogue.ts';
import type { Decider, Json, SnapshotShape } from '../../src/platform/event-store/event-definition.ts';
import { categoryOf, type StoredEvent } from '../../src/platform/event-store/event-store.ts';
import { sampleHistory } from './event-samples.ts';
import { updatesGolden } from './golden.ts';

// oxlint-disable-next-line typescript/no-explicit-any -- each decider is typed by its own events
type AnyDecider = Decider<any, any, any>;

const folder = resolve(import.meta.dirname, '../../eventstore/snapshots');
const catalogue = new EventCatalogue(eventDefinitions);
const history = sampleHistory('newest').map((event) => catalogue.upcast(event));

/** The deciders whose states are stored as snapshots, with the category of their streams. */
const kept: [name: string, category: string, decider: AnyDecider][] = [
  ['account', 'account', accountDecider],
  ['agent', 'agent', agentDecider],
  ['conversation', 'conversation', conversationDecider],
  ['custom-files', 'agent', customFilesDecider],
  ['environment', 'agent', environmentDecider],
  ['exec', 'exec', execDecider],
  ['files', 'files', filesDecider],
  ['secrets', 'secrets', secretsDecider],
  ['source-credentials', 'secrets', sourceCredentialsDecider],
  ['subscription', 'subscription', subscriptionDecider],
];

function shapeOf(decider: AnyDecider): SnapshotShape<unknown> {
  if (decider.snapshot === undefined) throw new Error('the decider declares no snapshot');
  return decider.snapshot;
}

/** Returns the state as a snapshot stores it. */
function written({ toJson }: SnapshotShape<unknown>, state: unknown): Json {
  return JSON.parse(JSON.stringify(toJson === undefined ? state : toJson(state))) as Json;
}

function readBack(shape: SnapshotShape<unknown>, state: unknown): unknown {
  const json = written(shape, state);
  return shape.fromJson === undefined ? json : shape.fromJson(json);
}

/** Returns the state with `SeatMap`s as plain maps, since equal ones may be built differently. */
function comparable(state: unknown): unknown {
  if (typeof state !== 'object' || state === null) return state;
  const members = Object.entries(state).map(([name, value]) => [name, value instanceof SeatMap ? new Map(value) : value]);
  return Object.fromEntries(members);
}

/** Returns the content of a snapshot after each sample event. */
function snapshotsOf(category: string, decider: AnyDecider): Record<string, Json> {
  let state = decider.initialState();
  const after: Record<string, Json> = {};
  for (const event of history.filter(({ stream }) => categoryOf(stream) === category)) {
    state = decider.evolve(state, event);
    after[`${event.position} ${event.type}`] = written(shapeOf(decider), state);
  }
  return after;
}

const fileOf = (decider: AnyDecider) => join(folder, `${shapeOf(decider).name}.v${shapeOf(decider).version}.json`);
const stored = (decider: AnyDecider) =>
  (existsSync(fileOf(decider)) ? JSON.parse(readFileSync(fileOf(decider), 'utf8')) : {}) as Record<string, Json>;

beforeAll(() => {
  if (!updatesGolden) return;
  mkdirSync(folder, { recursive: true });
  // Existing entries are kept: a changed form needs a new version.
  for (const [, category, decider] of kept) {
    const all = { ...snapshotsOf(category, decider), ...stored(decider) };
    const sorted = Object.entries(all).toSorted(([one], [other]) => (one < other ? -1 : 1));
    writeFileSync(fileOf(decider), `${JSON.stringify(Object.fromEntries(sorted))}\n`);
  }
});

describe('Snapshots of states', () => {
  it.each(kept)('of the decider %s have not changed since their version was introduced', (name, category, decider) => {
    expect(shapeOf(decider).name).toBe(name);
    const now = snapshotsOf(category, decider);
    const changed = Object.keys(now).filter((key) => JSON.stringify(now[key]) !== JSON.stringify(stored(decider)[key]));
    // A failure is fixed by a higher `version` in the decider's `snapshot`, so that older snapshots are ignored; the file of the previous
    // version is removed, and `npm run update-golden` writes the new one. A new sample of an event needs only the last step.
    expect({ file: fileOf(decider), changed }).toEqual({ file: fileOf(decider), changed: [] });
  });

  it('have one file each, of the version in use', () => {
    expect(readdirSync(folder).toSorted()).toEqual(kept.map(([, , decider]) => fileOf(decider).slice(folder.length + 1)).toSorted());
  });

  it.each(kept)('of the decider %s are restored as the same state, after any event', (_, category, decider) => {
    const events = history.filter(({ stream }) => categoryOf(stream) === category);
    const [first, ...others] = events as [StoredEvent, ...StoredEvent[]];
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...others), { maxLength: 30 }), fc.nat(30), (chosen, at) => {
        let state = decider.initialState();
        let restored = state;
        for (const [index, event] of [first, ...chosen].entries()) {
          if (index === at) restored = readBack(shapeOf(decider), restored);
          state = decider.evolve(state, event);
          restored = decider.evolve(restored, event);
        }
        expect(written(shapeOf(decider), restored)).toEqual(written(shapeOf(decider), state));
        expect(comparable(readBack(shapeOf(decider), state))).toStrictEqual(comparable(state));
      }),
      { numRuns: 200 },
    );
  });
});
