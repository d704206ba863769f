import { tmpdir } from 'node:os';

import { type EventStore, type EventsUpTo, START } from '../../event-store/event-store.ts';
import { Intervals } from '../../../kernel/config/intervals.ts';
import { LogPasses, type FoldRequest } from './log-pass.ts';
import type { Projection } from '../projection.ts';

const projectionOf = (name: string): Projection => ({
  name,
  version: 1,
  filter: { eventClass: 'core' },
  table: { key: 'id', columns: { id: 'text not null' }, indexes: {} },
  keys: () => [],
  project: () => undefined,
});

const wanted = (projection: Projection): FoldRequest => ({
  projection,
  end: null,
  signal: new AbortController().signal,
  onBegin: () => Promise.resolve(),
  onProgress: () => Promise.resolve(),
  add: () => Promise.resolve(),
  write: () => Promise.resolve(),
});

/** Returns passes over an empty log, and the number of its readings. `onRest` is called instead of each wait for other folds. */
function passesOverNothing(onRest: () => void): { passes: LogPasses; readings: () => number } {
  let readings = 0;
  const store = {
    head: () => Promise.resolve(START),
    async *readBulk(): AsyncGenerator<EventsUpTo> {
      readings += 1;
      yield { events: [], upTo: START };
    },
  } as unknown as EventStore;
  const rest = (): Promise<void> => Promise.resolve(onRest());
  return {
    passes: new LogPasses(store, { memoryBytes: 1e6, directory: tmpdir() }, new Intervals().foldGatherMs, rest),
    readings: () => readings,
  };
}

describe('a reading of the log', () => {
  const [early, late] = [projectionOf('early'), projectionOf('late')];

  it('waits for a read model that may have to be rebuilt, longer than for unannounced ones', async () => {
    let rests = 0;
    const second: Promise<void>[] = [];
    const { passes, readings } = passesOverNothing(() => {
      rests += 1;
      if (rests === 10) second.push(passes.fold(wanted(late)));
    });
    passes.expect(late);
    await passes.fold(wanted(early));
    await Promise.all(second);
    expect([readings(), second.length]).toEqual([1, 1]);
  });

  it('begins once it is known that the other one need not be rebuilt', async () => {
    let rests = 0;
    const { passes, readings } = passesOverNothing(() => {
      rests += 1;
      if (rests === 5) passes.withdraw(late);
    });
    passes.expect(late);
    await passes.fold(wanted(early));
    expect([readings(), rests]).toEqual([1, 5]);
  });

  it('begins without expected folds that are never requested', async () => {
    const { passes, readings } = passesOverNothing(() => undefined);
    passes.expect(late);
    await passes.fold(wanted(early));
    expect(readings()).toBe(1);
  });
});
