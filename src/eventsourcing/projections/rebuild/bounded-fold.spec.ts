import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import fc from 'fast-check';

import type { StoredEvent } from '../../event-store/event-store.ts';
import { BoundedFold } from './bounded-fold.ts';
import type { Projection } from '../projection.ts';
import { PoisonEvent } from '../tables/read-model-table.ts';

const columns = { name: 'text', text: 'text', tons: 'integer', at: 'timestamptz' } as const;

/** The rows are touched only by their own stream, but do not have its name as key; the marks are never read again. */
const boats: Projection = {
  name: 'boats',
  version: 1,
  filter: { eventClass: 'core' },
  table: { key: 'name', columns, indexes: {} },
  keys: ({ type, data }) => (type === 'Marked' ? [] : [data.boat as string]),
  project({ type, stream, revision, data, at }, rows) {
    if (type === 'Poison') throw new Error('choked');
    if (type === 'Marked') return rows.set(`${stream} ${revision}`, { name: `${stream} ${revision}`, text: data.text, tons: null, at });
    const name = data.boat as string;
    if (type === 'Left') return rows.delete(name);
    const tons = ((rows.get(name)?.tons as number | undefined) ?? 0) + (data.tons as number);
    rows.set(name, { name, text: data.text, tons, at });
  },
};

const event = (type: string, stream: string, data: object, revision = 0): StoredEvent =>
  ({ type, stream, revision, data, at: '2026-01-02T03:04:05.678Z', position: String(revision) }) as unknown as StoredEvent;

let directory: string;
beforeAll(async () => (directory = await mkdtemp(join(tmpdir(), 'mooring-spill-'))));
afterAll(() => rm(directory, { recursive: true }));

/** Returns the values of each row as in a COPY. */
const rowsOf = (text: Buffer): string[][] =>
  text
    .toString()
    .split('\n')
    .slice(0, -1)
    .map((line) => line.split('\t'));

/**
 * Returns all rows of a fold with that memory that applies that many events at a time. With `takesFinal`, final rows are drained in
 * between.
 */
async function folded(projection: Projection, events: StoredEvent[], memoryBytes: number, takesFinal = false, atOnce = 3) {
  const fold = new BoundedFold(projection, { memoryBytes, directory });
  const rows: string[][] = [];
  try {
    for (let from = 0; from < events.length; from += atOnce) {
      await fold.apply(events.slice(from, from + atOnce));
      if (takesFinal) rows.push(...rowsOf(fold.drainFinal()));
    }
    for await (const text of fold.text()) rows.push(...rowsOf(text));
    return { spilled: fold.spilled, rows: rows.toSorted(([a = ''], [b = '']) => (a < b ? -1 : 1)) };
  } finally {
    await fold.close();
  }
}

describe('a fold with little memory', () => {
  it('gives the same rows as one with plenty, and leaves no file', async () => {
    const step = fc.record({
      type: fc.constantFrom('Loaded', 'Loaded', 'Left', 'Marked'),
      boat: fc.constantFrom('Ark', 'Beagle', 'Cutty', 'Dove', 'Endeavour'),
      text: fc.string({ unit: 'binary' }),
      tons: fc.nat(9),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 40 }), fc.nat(2_000), fc.boolean(), async (steps, memory, takesFinal) => {
        const events = steps.map(({ type, ...data }, index) => event(type, `boat-of-${data.boat}`, data, index));
        const plenty = await folded(boats, events, 1e9);
        const little = await folded(boats, events, memory, takesFinal);
        expect(little.rows).toEqual(plenty.rows);
      }),
      { numRuns: 40 },
    );
    const many = Array.from({ length: 500 }, (_, n) =>
      event('Loaded', `boat-${n % 100}`, { boat: `b${n % 100}`, tons: 1, text: 'x\u2028\n' }, n),
    );
    expect(await folded(boats, many, 1_000)).toMatchObject({ spilled: true, rows: { length: 100 } });
    expect(await readdir(directory)).toEqual([]);
  });

  it('keeps no final row in memory, however many there are', async () => {
    const fold = new BoundedFold(boats, { memoryBytes: 1_000, directory });
    for (let n = 0; n < 1_000; n += 1) {
      await fold.apply([event('Marked', 'boat-Ark', { text: 'x'.repeat(100) }, n)]);
      expect(rowsOf(fold.drainFinal())).toHaveLength(1);
    }
    expect([fold.spilled, fold.bytes]).toEqual([false, 0]);
    await fold.close();
  });

  it('folds the events of one partition together, although they come from several streams', async () => {
    const crossing: Projection = { ...boats, partition: ({ data }) => data.boat as string };
    const events = Array.from({ length: 300 }, (_, n) => event('Loaded', `harbour-${n % 7}`, { boat: `b${n % 31}`, tons: 1, text: '' }, n));
    const { rows } = await folded(crossing, events, 1_000);
    expect([rows.length, rows.reduce((sum, [, , tons]) => sum + Number(tons), 0)]).toEqual([31, 300]);
  });

  it('names the event that it can not apply, even if that was read back from disk', async () => {
    const load = (n: number) => event('Loaded', `boat-${n}`, { boat: `b${n}`, tons: 1, text: '' }, n);
    const poison = event('Poison', 'boat-1', { boat: 'b1' }, 7);
    for (const memory of [0, 1e9]) {
      const failed = await folded(boats, [load(1), load(2), load(3), poison], memory).catch((error: unknown) => error);
      expect(failed).toBeInstanceOf(PoisonEvent);
      expect((failed as PoisonEvent).message).toBe('Poison at 7: choked');
    }
    expect(await readdir(directory)).toEqual([]);
  });
});
