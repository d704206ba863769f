import fc from 'fast-check';

import type { StoredEvent } from '../../event-store/event-store.ts';
import { fold, type Row } from './fold.ts';
import type { Projection } from '../projection.ts';
import { checkTable } from './projection-sql.ts';

const boats: Projection = {
  name: 'boats',
  version: 1,
  filter: { eventClass: 'core' },
  table: { key: 'name', columns: { name: 'text', cargo: 'integer', at: 'timestamptz' }, indexes: {} },
  keys: (event) => [event.data.boat as string],
  project(event, rows) {
    const name = event.data.boat as string;
    if (event.type === 'Left') return rows.delete(name);
    const cargo = (rows.get(name)?.cargo as number | undefined) ?? 0;
    rows.set(name, { name, cargo: cargo + (event.data.tons as number), at: event.at });
  },
};

const event = (type: string, boat: string, tons = 1): StoredEvent =>
  ({ type, data: { boat, tons }, at: '2026-01-02T03:04:05.678Z', position: '1' }) as unknown as StoredEvent;

const folded = (projection: Partial<Projection>, events: StoredEvent[], stored: Row[] = []) =>
  fold({ ...boats, ...projection }, events, new Map(stored.map((row) => [row.name as string, row])));

describe('folding a batch', () => {
  it('gives the same rows wherever the batch is cut', () => {
    const some = fc.array(
      fc.record({ type: fc.constantFrom('Loaded', 'Left'), boat: fc.constantFrom('a', 'b', 'c'), tons: fc.nat(9), cut: fc.boolean() }),
    );
    fc.assert(
      fc.property(some, (steps) => {
        const table = new Map<string, Row>();
        const take = (events: StoredEvent[]) => {
          const { written, removed, failure } = fold(boats, events, table);
          expect(failure).toBeNull();
          for (const key of removed) table.delete(key);
          for (const row of written) table.set(row.name as string, row);
        };
        const events = steps.map(({ type, boat, tons }) => event(type, boat, tons));
        let batch: StoredEvent[] = [];
        for (const [index, { cut }] of steps.entries()) {
          batch.push(events[index] as StoredEvent);
          if (cut) take(batch.splice(0));
        }
        take(batch);
        const { written } = fold(boats, events, new Map());
        expect(new Map(written.map((row) => [row.name, row]))).toEqual(table);
      }),
    );
  });

  it('leaves out all changes of the failing event, and keeps those before it', () => {
    const project: Projection['project'] = (each, rows) => {
      boats.project(each, rows);
      if (each.data.tons === 13) throw new Error('unlucky');
    };
    const bad = event('Loaded', 'a', 13);
    const { written, failure } = folded({ project }, [event('Loaded', 'a', 2), bad, event('Loaded', 'a', 3)]);
    expect(written).toMatchObject([{ name: 'a', cargo: 2 }]);
    expect(failure).toEqual({ event: bad, error: new Error('unlucky') });
  });

  it('stops at an event whose keys can not be computed', () => {
    const keys: Projection['keys'] = (each) => {
      if (each.type === 'Odd') throw new Error('which boat?');
      return boats.keys(each);
    };
    const { written, failure } = folded({ keys }, [event('Loaded', 'a'), event('Odd', 'a'), event('Loaded', 'a')]);
    expect(written).toMatchObject([{ cargo: 1 }]);
    expect(failure?.event.type).toBe('Odd');
  });

  it('refuses to read a row that was not named, because whether it is found would depend on the batch', () => {
    expect(folded({ keys: () => [] }, [event('Loaded', 'a')]).failure?.error).toEqual(
      new Error('the row a is read but not named by keys()'),
    );
  });

  it('refuses to remove a row that was not named, because a fold of the whole log may have written it away', () => {
    expect(folded({ keys: () => [] }, [event('Left', 'a')]).failure?.error).toEqual(
      new Error('the row a is removed but not named by keys()'),
    );
  });

  it('refuses members that are not columns, and a row under a different key', () => {
    const set = (row: Row) => folded({ project: (_, rows) => rows.set('a', row) }, [event('Loaded', 'a')]).failure?.error;
    expect(set({ name: 'a', typo: 1 })).toMatchObject({ message: expect.stringContaining('typo') });
    expect(set({ name: 'b' })).toMatchObject({ message: expect.stringContaining('a different value in its key column') });
    expect(set({ name: 'a', at: 'no time' })).toBeInstanceOf(RangeError);
  });

  it('writes rows as they will be read back, and freezes them', () => {
    const project: Projection['project'] = (each, rows) => {
      if (each.type === 'Changed') (rows.get('a') as Row).cargo = 9;
      else rows.set('a', { name: 'a', at: '2026-01-02T04:04:05.678+01:00' });
    };
    const { written, failure } = folded({ project }, [event('Loaded', 'a'), event('Changed', 'a')]);
    expect(written).toEqual([{ name: 'a', cargo: null, at: '2026-01-02T03:04:05.678Z' }]);
    expect(failure?.error).toBeInstanceOf(TypeError);
  });
});

describe('the definition of a table', () => {
  it('has plain names, and its key among its columns', () => {
    expect(() => checkTable({ ...boats, name: 'Boats"' })).toThrow('is not a plain lower-case name');
    expect(() => checkTable({ name: 'boats', table: { ...boats.table, columns: { 'a b': 'text', name: 'text' } } })).toThrow('a b');
    expect(() => checkTable({ name: 'boats', table: { ...boats.table, key: 'id' } })).toThrow('its key id is not a column');
  });
});
