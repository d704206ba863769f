import fc from 'fast-check';

import { SeatMap } from '../../src/features/accounts/aggregate/seat-map.rules.ts';
import { eventDefinitions } from '../../src/app.module.ts';
import { EventCatalogue } from '../../src/eventsourcing/event-store/event-catalogue.ts';
import type { SnapshotShape } from '../../src/eventsourcing/event-store/event-definition.ts';
import type { StoredEvent } from '../../src/eventsourcing/event-store/event-store.ts';
import { golden } from './golden.ts';
import { eventsOf, keptDeciders, shapeOf, snapshotFile, snapshotFiles, snapshotsAfter, storedSnapshots, written } from './snapshots.ts';

const catalogue = new EventCatalogue(eventDefinitions);

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

describe('Snapshots of states', () => {
  it.each(keptDeciders)('of the decider %s have not changed since their version was introduced', (name, category, decider) => {
    expect(shapeOf(decider).name).toBe(name);
    const now = snapshotsAfter(eventsOf(category, catalogue), decider);
    const changed = Object.keys(now).filter((key) => JSON.stringify(now[key]) !== JSON.stringify(storedSnapshots(decider)[key]));
    // A snapshot of a new sample is written by `npm run update-golden`, which says what to do if it finds one that has changed.
    golden(() => expect({ file: snapshotFile(decider), changed }).toEqual({ file: snapshotFile(decider), changed: [] }));
  });

  it.each([
    ['agent', 'deployment', 'earlier'],
    ['agent', 'deployment', 'releaseCommand'],
    ['agent', 'candidate', 'run'],
    ['agent', 'candidate', 'startTimeoutSeconds'],
    ['agent', 'release', 'run'],
    ['agent', 'release', 'startTimeoutSeconds'],
    ['conversation', 'pending', '1', 'replyBy'],
    ['conversation', 'openTask'],
  ])('of the decider %s have a value at least once for %s %s', (name, ...path) => {
    const [, , decider] = keptDeciders.find(([kept]) => kept === name)!;
    const read = (value: unknown, member: string): unknown => (value as Record<string, unknown> | null | undefined)?.[member];
    const values = Object.values(storedSnapshots(decider)).map((state) => path.reduce(read, state as unknown));
    expect(values.filter((value) => value !== null && value !== undefined)).not.toEqual([]);
  });

  it('have one file each, of the version in use', () => {
    expect(snapshotFiles()).toEqual(keptDeciders.map(([, , decider]) => snapshotFile(decider)).toSorted());
  });

  it.each(keptDeciders)('of the decider %s are restored as the same state, after any event', (_, category, decider) => {
    const [first, ...others] = eventsOf(category, catalogue) as [StoredEvent, ...StoredEvent[]];
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
