import { tmpdir } from 'node:os';
import { setTimeout as wait } from 'node:timers/promises';

import { type EventStore, type EventsUpTo, START } from '../event-store/event-store.ts';
import { LogPasses, type WantedFold } from './log-pass.ts';
import type { Projection } from './projection.ts';

const projectionOf = (name: string): Projection => ({
  name,
  version: 1,
  filter: { eventClass: 'core' },
  table: { name, key: 'id', columns: { id: 'text not null' }, indexes: {} },
  keys: () => [],
  project: () => undefined,
});

const wanted = (projection: Projection): WantedFold => ({
  projection,
  end: null,
  signal: new AbortController().signal,
  onBegin: () => Promise.resolve(),
  onProgress: () => Promise.resolve(),
  add: () => Promise.resolve(),
  write: () => Promise.resolve(),
});

/** Passes over an empty log, and how often it was read. */
function passesOverNothing(): { passes: LogPasses; readings: () => number } {
  let readings = 0;
  const store = {
    head: () => Promise.resolve(START),
    async *readBulk(): AsyncGenerator<EventsUpTo> {
      readings += 1;
      yield { events: [], upTo: START };
    },
  } as unknown as EventStore;
  return { passes: new LogPasses(store, { memoryBytes: 1e6, directory: tmpdir() }), readings: () => readings };
}

/** Longer than a pass waits for those of whom it knows nothing. */
const LATE_MS = 900;

describe('a reading of the log', () => {
  it('waits for a read model that may have to be made anew, however late that is known', async () => {
    const { passes, readings } = passesOverNothing();
    const [early, late] = [projectionOf('early'), projectionOf('late')];
    passes.expect(late);
    const first = passes.fold(wanted(early));
    await wait(LATE_MS);
    expect(readings()).toBe(0);
    await Promise.all([first, passes.fold(wanted(late))]);
    expect(readings()).toBe(1);
  });

  it('begins once it is known that the other need not be made anew', async () => {
    const { passes, readings } = passesOverNothing();
    const [early, late] = [projectionOf('early'), projectionOf('late')];
    passes.expect(late);
    const first = passes.fold(wanted(early));
    passes.notNeeded(late);
    await first;
    expect(readings()).toBe(1);
  });
});
