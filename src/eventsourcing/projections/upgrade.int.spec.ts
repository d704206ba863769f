import fc from 'fast-check';

import { type SampleProjection, sampleProjection, ProjectionProcess } from '../../../test/support/sample-projection.ts';
import { sampleEvent } from '../../../test/support/sample-event.ts';
import { appendTo, eventually, openLog, operate } from '../../../test/support/log.ts';
import { freshDatabase, type TestDatabase } from '../../../test/support/postgres.ts';
import { defineEvent, type JsonObject } from '../event-store/event-definition.ts';
import { systemContext } from '../../kernel/context/command-context.ts';
import { TABLES_LOCK } from './tables/projection-registry.ts';
import { rebuildDecider, rebuildStream } from './rebuild/rebuild.decider.ts';

let test: TestDatabase;
const open: ProjectionProcess[] = [];

beforeEach(async () => {
  test = await freshDatabase();
});
afterEach(async () => {
  for (const harbour of open.splice(0)) await harbour.close();
  await test.drop();
});

/** Returns the read model as a program of that version defines it: the notes in its rows name the version. */
function version(number: number, name = 'boats'): SampleProjection {
  return {
    ...sampleProjection,
    name,
    version: number,
    project(event, rows) {
      sampleProjection.project(event, {
        ...rows,
        get: (key) => rows.get(key),
        delete: (key) => rows.delete(key),
        set: (key, row) => rows.set(key, { ...row, note: `v${number}` }),
      });
    },
  };
}

async function start(
  ...of: Parameters<typeof ProjectionProcess.open> extends [string, ...infer Rest] ? Rest : never
): Promise<ProjectionProcess> {
  const harbour = await ProjectionProcess.open(test.url, ...of);
  open.push(harbour);
  return harbour;
}

async function end(harbour: ProjectionProcess): Promise<void> {
  open.splice(open.indexOf(harbour), 1);
  await harbour.close();
}

const arrive = (harbour: ProjectionProcess, boat: string) => appendTo(harbour.log.store, `boat-${boat}`, sampleEvent('BoatArrived'));
const isReady = async (harbour: ProjectionProcess) => (await harbour.projections.progress()).every(({ ready }) => ready);
const notes = async (harbour: ProjectionProcess, table: string) =>
  (await harbour.log.database.query<{ note: string }>(`select note from ${table} order by name`)).map(({ note }) => note);
const tables = async () =>
  (await operate(test.url, `select tablename from pg_tables where tablename like 'boats%' order by 1`)).map(({ tablename }) => tablename);

describe('a program that starts', () => {
  it('waits for a replica that hangs while it holds the tables’ lock', async () => {
    const hung = await openLog(test.url);
    const session = await hung.database.pool.connect();
    await session.query('begin');
    await session.query(TABLES_LOCK);
    let attempts = 0;
    const starting = start([version(1)], ({ database }) => {
      const connect = database.openPool.bind(database);
      database.openPool = (...of) => {
        const pool = connect(...of);
        if (of[0] === 'replicas') pool.on('acquire', () => (attempts += 1));
        return pool;
      };
    });
    await eventually(() => attempts > 1, 'a second attempt');
    await session.query('rollback');
    session.release();
    expect(await isReady(await starting)).toBe(true);
    await hung.close();
  });
});

describe('a newer program beside an older one', () => {
  it('has its own rows; those of the older one stay until no replica uses them', async () => {
    const old = await start([version(1)]);
    await arrive(old, 'Ark');
    const next = await start([version(2)]);
    await eventually(() => isReady(next));
    const { position } = await arrive(old, 'Beagle');
    for (const { projections } of [old, next]) await projections.waitFor('boats', position);
    expect([await notes(old, 'boats_v1'), await notes(next, 'boats_v2')]).toEqual([
      ['v1', 'v1'],
      ['v2', 'v2'],
    ]);
    expect(await next.replicas.dropUnused()).toEqual([]);
    await end(old);
    expect(await next.replicas.dropUnused()).toEqual(['boats_v1']);
    expect(await tables()).toEqual(['boats_v2']);
    expect(await operate(test.url, 'select table_name from projection_checkpoints')).toEqual([{ table_name: 'boats_v2' }]);
  });

  it('preserves the tables of a replica that died, or whose session broke, for a minute', async () => {
    const old = await start([version(1)]);
    const next = await start([version(2)]);
    await eventually(() => isReady(next));
    const [announced] = await operate(test.url, `select owner from program_replicas where tables = array['boats_v1']`);
    await operate(test.url, 'select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1', [announced?.owner]);
    await eventually(
      async () => (await operate(test.url, 'select from pg_stat_activity where application_name = $1', [announced?.owner])).length === 0,
    );
    expect(await next.replicas.dropUnused()).toEqual([]);
    await end(old);
    await operate(test.url, `update program_replicas set seen_at = seen_at - interval '61 seconds' where owner = $1`, [announced?.owner]);
    expect(await next.replicas.dropUnused()).toEqual(['boats_v1']);
  });

  it('that writes events which the older one can not read: both report it; the older one is not ready once it reads one, and the newer one takes over', async () => {
    const sunk = defineEvent<JsonObject>()('BoatSunk', () => 'BoatSunk');
    const old = await start([version(1)]);
    await eventually(() => isReady(old));
    const next = await start([version(1)], undefined, [sunk]);
    expect(next.replicas.incompatible).toMatchObject([{ cannotRead: ['BoatSunk v1'], mayWrite: [] }]);
    const { position } = await appendTo(next.log.store, 'boat-Ark', sampleEvent('BoatArrived'), sampleEvent('BoatSunk'));
    await eventually(async () => (await old.projections.progress())[0]?.reason?.includes('BoatSunk is not known'));
    expect(await isReady(old)).toBe(false);
    await next.projections.waitFor('boats', position, 8_000);
    expect(await isReady(next)).toBe(true);
    expect(await isReady(old)).toBe(false);
  });
});

it('fills several read models by one reading of the log', async () => {
  const first = await start([]);
  for (const boat of ['Ark', 'Beagle']) await arrive(first, boat);
  let readings = 0;
  const next = await start([version(1, 'boats'), version(2, 'boats_too'), version(3, 'boats_three')], ({ store }) => {
    const read = store.readBulk.bind(store);
    store.readBulk = (...of) => {
      readings += 1;
      return read(...of);
    };
  });
  await eventually(() => isReady(next));
  expect(readings).toBe(1);
  expect(await notes(next, 'boats_three_v3')).toEqual(['v3', 'v3']);
  for (const name of ['boats', 'boats_too', 'boats_three'])
    expect(await next.projections.verify(name)).toMatchObject({ equal: true, rows: 2 });
});

describe('a read model that is far behind', () => {
  async function loaded(url: string, count: number): Promise<void> {
    const log = await openLog(url);
    for (let left = count; left > 0; left -= 500)
      await appendTo(log.store, 'boat-Ark', ...Array.from({ length: Math.min(left, 500) }, () => sampleEvent('BoatLoaded', { tons: 1 })));
    await log.close();
  }

  /** Returns the reasons of the rebuilds that begin, in order. */
  function rebuildsOf({ database }: ProjectionProcess['log']): string[] {
    const reasons: string[] = [];
    const query = database.query.bind(database);
    database.query = (text, values, ...more) => {
      if (text.includes('insert into projection_rebuilds')) reasons.push(String(values?.[2]));
      return query(text, values, ...more);
    };
    return reasons;
  }

  /** Starts a program again after `meanwhile` events were added while none ran, to a log of `before` events. */
  async function afterAbsence(
    before: number,
    meanwhile: number,
  ): Promise<{ harbour: ProjectionProcess; reasons: string[]; readings: () => number }> {
    await loaded(test.url, before);
    const first = await start();
    await arrive(first, 'Ark');
    await first.projections.waitFor('boats', await first.log.store.head('core'));
    await end(first);
    await loaded(test.url, meanwhile);
    let reasons: string[] = [];
    let readings = 0;
    const harbour = await start([sampleProjection], (log) => {
      reasons = rebuildsOf(log);
      const read = log.store.readBulk.bind(log.store);
      log.store.readBulk = (...of) => {
        readings += 1;
        return read(...of);
      };
    });
    await eventually(() => isReady(harbour));
    await harbour.projections.waitFor('boats', await harbour.log.store.head('core'));
    return { harbour, reasons, readings: () => readings };
  }

  it('by a small part of the log catches up in bulk, and is not ready until then', async () => {
    const { harbour, reasons, readings } = await afterAbsence(8_000, 2_100);
    expect(reasons).toEqual([]);
    expect(readings()).toBeGreaterThan(0);
    expect(await harbour.log.database.query('select cargo from boats_v1')).toEqual([{ cargo: '2100' }]);
    expect(await harbour.projections.verify('boats')).toMatchObject({ equal: true });
  });

  it('by most of the log is rebuilt, and is not ready until then', async () => {
    const { harbour, reasons } = await afterAbsence(500, 2_100);
    expect(new Set(reasons)).toEqual(new Set(['behind']));
    expect(await harbour.log.database.query('select cargo from boats_v1')).toEqual([{ cargo: '2100' }]);
    const { position } = await arrive(harbour, 'Beagle');
    await harbour.projections.waitFor('boats', position);
    expect(await harbour.projections.verify('boats')).toMatchObject({ equal: true, rows: 2 });
  });

  it('and can not be rebuilt because of one event applies the events before it', async () => {
    const first = await start();
    await arrive(first, 'Ark');
    await first.projections.waitFor('boats', await first.log.store.head('core'));
    await end(first);
    await loaded(test.url, 2_100);
    const log = await openLog(test.url);
    await appendTo(log.store, 'boat-Ark', sampleEvent('BoatLoaded', { tons: 'not a number' }));
    await log.close();
    const harbour = await start();
    await eventually(async () => (await harbour.projections.status()).some(({ status }) => status === 'failed'));
    expect(await harbour.log.database.query('select cargo from boats_v1')).toEqual([{ cargo: '2100' }]);
  });

  it('has the rows of a fresh fold after any sequence of new versions, rebuilds, catch-ups and broken connections', async () => {
    const act = fc.oneof(
      { weight: 4, arbitrary: fc.record({ do: fc.constant('append' as const), boat: fc.constantFrom('Ark', 'Beagle', 'Cutty') }) },
      fc.constant({ do: 'rebuild' as const }),
      fc.constant({ do: 'raise' as const }),
      fc.constant({ do: 'be away' as const }),
      fc.constant({ do: 'break' as const }),
    );
    let number = 1;
    let harbour = await start([version(number)]);
    const perform = async (what: { do: 'append'; boat: string } | { do: 'rebuild' | 'raise' | 'be away' | 'break' }) => {
      const { store, aggregates } = harbour.log;
      if (what.do === 'append')
        await appendTo(store, `boat-${what.boat}`, sampleEvent('BoatArrived'), sampleEvent('BoatLoaded', { tons: 3 }));
      else if (what.do === 'rebuild') {
        const command = { type: 'RequestRebuild', rebuildId: crypto.randomUUID() } as const;
        await aggregates.execute(rebuildStream(`boats_v${number}`), rebuildDecider, command, systemContext('test', null));
      } else if (what.do === 'break')
        await operate(
          test.url,
          `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
        );
      else {
        await end(harbour);
        if (what.do === 'be away') await loaded(test.url, 2_100);
        else number += 1;
        harbour = await start([version(number)]);
      }
    };
    await fc.assert(
      fc.asyncProperty(fc.array(act, { minLength: 3, maxLength: 6 }), async (acts) => {
        for (const each of acts) await perform(each).catch((error: { code?: string }) => expect(error.code).not.toBe('ERR_ASSERTION'));
        await eventually(() => isReady(harbour).catch(() => false));
        await eventually(async () => {
          const head = await harbour.log.store.head('core');
          return harbour.projections.waitFor('boats', head, 5_000).then(
            () => true,
            () => false,
          );
        });
        await eventually(async () => (await harbour.projections.rebuilds()).size === 0);
        expect(await harbour.projections.verify('boats')).toMatchObject({ equal: true, differences: [] });
      }),
      { numRuns: 6 },
    );
  });
});
