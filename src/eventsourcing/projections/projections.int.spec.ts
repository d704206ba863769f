import { sampleEvent } from '../../../test/support/sample-event.ts';
import { appendTo, eventually, everything, openLog, openPasses, operate, type OpenedLog } from '../../../test/support/log.ts';
import { freshDatabase, type TestDatabase } from '../../../test/support/postgres.ts';
import { typed } from '../../postgres/database/table.ts';
import { type StoredEvent, idOf } from '../event-store/event-store.ts';
import { Leases } from '../../postgres/leases/leases.ts';
import type { Projection, ProjectionTable } from './projection.ts';
import { Projections } from './projections.ts';

const boatsTable = {
  key: 'name',
  columns: {
    name: 'text not null',
    cargo: typed<number>('numeric not null'),
    seen: 'text[] not null',
    arrived_at: 'timestamptz not null',
    left: 'boolean',
    log: 'jsonb',
  },
  indexes: { by_cargo: '(cargo desc, name)' },
} as const satisfies ProjectionTable;

type BoatProjection = Projection<Pick<typeof boatsTable, 'key' | 'columns'> & ProjectionTable>;
function boats(name: string, change: Partial<BoatProjection> = {}): BoatProjection {
  return {
    name,
    version: 1,
    filter: { ...everything, categories: ['boat'] },
    table: boatsTable,
    keys: (event) => [idOf(event.stream)],
    project(event, rows) {
      const key = idOf(event.stream);
      const boat = rows.get(key);
      if (event.type === 'BoatArrived')
        rows.set(key, { name: key, cargo: 0, seen: ['arrived'], arrived_at: event.at, left: false, log: { at: event.at } });
      else if (event.type === 'BoatLoaded' && boat)
        rows.set(key, { ...boat, cargo: boat.cargo + (event.data.tons as number), seen: [...boat.seen, 'loaded'] });
      else if (event.type === 'BoatLeft') rows.delete(key);
    },
    ...change,
  };
}

/** Acts as a process with read models; the database can't see a difference. */
class Process {
  readonly projections: Projections;
  readonly leases: Leases;

  private constructor(readonly log: OpenedLog) {
    this.leases = new Leases(log.database);
    this.projections = new Projections(log.database, log.store, this.leases, log.aggregates, openPasses(log.store));
  }

  static async start(url: string, ...projections: BoatProjection[]): Promise<Process> {
    const started = new Process(await openLog(url));
    for (const projection of projections) started.projections.register(projection);
    await started.projections.start();
    return started;
  }

  async stop(): Promise<void> {
    await this.projections.beforeApplicationShutdown();
    await this.log.close();
  }
}

describe('read models', () => {
  let test: TestDatabase;
  let log: OpenedLog;
  const processes: Process[] = [];

  const start = async (...projections: BoatProjection[]) => {
    const started = await Process.start(test.url, ...projections);
    processes.push(started);
    return started;
  };
  const stop = async (stopped: Process) => {
    processes.splice(processes.indexOf(stopped), 1);
    await stopped.stop();
  };
  const rowsOf = (table: string, version = 1) => log.database.query(`select * from "${table}_v${version}" order by name`);
  const textOf = async (table: string) => JSON.stringify(await log.database.query(`select t::text from "${table}_v1" t order by name`));
  const arrive = async (boat: string, tons = 0, ...more: string[]) => {
    const loads = tons === 0 ? [] : [sampleEvent('BoatLoaded', { tons })];
    return appendTo(log.store, `boat-${boat}`, sampleEvent('BoatArrived'), ...loads, ...more.map((type) => sampleEvent(type)));
  };

  beforeEach(async () => {
    test = await freshDatabase();
    log = await openLog(test.url);
  });

  afterEach(async () => {
    for (const each of processes.splice(0)) await each.stop();
    await log.close();
    await test.drop();
  });

  it('shows what was appended before the start and after it, as soon as a reader has waited for it', async () => {
    await arrive('Ark', 5);
    const { projections } = await start(boats('boats'));
    const { position } = await arrive('Beagle', 7);
    await projections.waitFor('boats', position);
    expect(await rowsOf('boats')).toMatchObject([
      { name: 'Ark', cargo: '5', seen: ['arrived', 'loaded'], left: false },
      { name: 'Beagle', cargo: '7' },
    ]);
  });

  it('follows the log once if its start is repeated before the first one is over', async () => {
    const { position } = await arrive('Ark', 5);
    const projections = new Projections(log.database, log.store, new Leases(log.database), log.aggregates, openPasses(log.store));
    projections.register(boats('boats'));
    await Promise.all([projections.start(), projections.start()]);
    await projections.waitFor('boats', position);
    expect(await rowsOf('boats')).toMatchObject([{ name: 'Ark', cargo: '5' }]);
    await projections.beforeApplicationShutdown();
  });

  it('deletes rows, and keeps a row that was deleted and added again within one batch', async () => {
    await arrive('Ark', 5, 'BoatLeft');
    await arrive('Beagle', 5, 'BoatLeft', 'BoatArrived');
    const { position } = await arrive('Cutty', 1);
    const { projections } = await start(boats('boats'));
    await projections.waitFor('boats', position);
    expect(await rowsOf('boats')).toMatchObject([
      { name: 'Beagle', cargo: '0' },
      { name: 'Cutty', cargo: '1' },
    ]);
  });

  it('creates byte-equal rows from the same log, however it is cut into batches', async () => {
    const live = await start(boats('boats'));
    for (let n = 0; n < 30; n += 1) {
      const { position } = await arrive(`boat${n % 7}`, n);
      await live.projections.waitFor('boats', position);
    }
    const again = await start(boats('replayed'));
    await again.projections.waitFor('replayed', await log.store.head('core'));
    expect((await textOf('replayed')).replaceAll('replayed', 'boats')).toBe(await textOf('boats'));
  });

  it('continues after a restart where it stopped, and counts nothing twice', async () => {
    const first = await start(boats('boats'));
    const { position } = await arrive('Ark', 3);
    await first.projections.waitFor('boats', position);
    await stop(first);
    await appendTo(log.store, 'boat-Ark', sampleEvent('BoatLoaded', { tons: 4 }));
    const second = await start(boats('boats'));
    await second.projections.waitFor('boats', await log.store.head('core'));
    expect(await rowsOf('boats')).toMatchObject([{ name: 'Ark', cargo: '7' }]);
  });

  it('applies a batch completely or not at all, and not twice, if the write of its checkpoint fails', async () => {
    const { projections } = await start(boats('boats'));
    await projections.waitFor('boats', (await arrive('Ark', 1)).position);
    await operate(
      test.url,
      `create function refuse() returns trigger language plpgsql as $$ begin
      raise exception 'cut off' using errcode = '57014'; end $$`,
    );
    // The check is deferred to the commit, when the rows are written already.
    await operate(
      test.url,
      `create constraint trigger cut after update on projection_checkpoints deferrable initially deferred
      for each row execute function refuse()`,
    );
    const { position } = await appendTo(log.store, 'boat-Ark', sampleEvent('BoatLoaded', { tons: 10 }));
    await expect(projections.waitFor('boats', position, 500)).rejects.toMatchObject({ code: 'read_model_behind' });
    expect(await rowsOf('boats')).toMatchObject([{ cargo: '1' }]);
    await operate(test.url, 'drop trigger cut on projection_checkpoints');
    await projections.waitFor('boats', position);
    expect(await rowsOf('boats')).toMatchObject([{ cargo: '11' }]);
  });

  it('counts exactly once while the database cuts its connections again and again', async () => {
    const { projections } = await start(boats('boats'));
    await arrive('Ark');
    for (let n = 0; n < 20; n += 1) {
      await appendTo(log.store, 'boat-Ark', sampleEvent('BoatLoaded', { tons: 1 }), sampleEvent('BoatLoaded', { tons: 1 }));
      const victims = `datname = current_database() and query like '%projection_checkpoints%' and pid <> pg_backend_pid()`;
      await operate(test.url, `select pg_terminate_backend(pid) from pg_stat_activity where ${victims}`);
    }
    await projections.waitFor('boats', await log.store.head('core'), 90_000);
    expect(await rowsOf('boats')).toMatchObject([{ cargo: '40' }]);
  });

  it('refuses the writes of a holder that stalled while another took over', async () => {
    let stall: (() => void) | null = null;
    let late: unknown = null;
    const stalled = await start(boats('boats'));
    await stalled.projections.waitFor('boats', (await arrive('Ark', 1)).position);
    // The first holder stalls in the middle of a batch: it has read and folded, but not written.
    const { pool } = stalled.log.database;
    const query = pool.query.bind(pool) as (...of: unknown[]) => Promise<unknown>;
    (pool as { query: unknown }).query = async (...of: unknown[]) => {
      const { name } = of[0] as { name?: string };
      if (!name?.startsWith('write boats')) return query(...of);
      await new Promise<void>((resolve) => (stall = resolve));
      const { rows } = (await query(...of)) as { rows: unknown[] };
      return { rows: (late = rows) };
    };
    await appendTo(log.store, 'boat-Ark', sampleEvent('BoatLoaded', { tons: 10 }));
    await eventually(() => stall !== null, 'the stall');
    const other = await start(boats('boats'));
    // This ends the session that holds the lease, as a kill -9 would.
    await operate(
      test.url,
      'select pg_terminate_backend(pid) from pg_stat_activity where application_name in (select owner from consumer_leases)',
    );
    const { position } = await appendTo(log.store, 'boat-Ark', sampleEvent('BoatLoaded', { tons: 100 }));
    await other.projections.waitFor('boats', position);
    const right = [{ cargo: '111', seen: ['arrived', 'loaded', 'loaded', 'loaded'] }];
    expect(await rowsOf('boats')).toMatchObject(right);
    (stall as unknown as () => void)();
    expect(await eventually(() => late ?? undefined)).toMatchObject([{ moved: 0 }]);
    expect(await rowsOf('boats')).toMatchObject(right);
  });

  it('counts every event once on two replicas, and serves readers on both', async () => {
    const both = [await start(boats('boats')), await start(boats('boats'))] as const;
    await arrive('Ark');
    for (let n = 0; n < 10; n += 1) {
      const { position } = await appendTo(log.store, 'boat-Ark', sampleEvent('BoatLoaded', { tons: 1 }));
      await Promise.all(both.map(({ projections }) => projections.waitFor('boats', position)));
      expect(await rowsOf('boats')).toMatchObject([{ cargo: String(n + 1) }]);
    }
    await stop(both[0]);
    const { position } = await appendTo(log.store, 'boat-Ark', sampleEvent('BoatLoaded', { tons: 1 }));
    await both[1].projections.waitFor('boats', position);
    expect(await rowsOf('boats')).toMatchObject([{ cargo: '11' }]);
  });

  it('has reached an event that does not concern it, also after a restart', async () => {
    const { projections } = await start(boats('boats'));
    const { position } = await appendTo(log.store, 'tide-1', sampleEvent('TideTurned'));
    await projections.waitFor('boats', position);
    await eventually(
      async () => (await log.database.query('select from projection_checkpoints where position = $1', [position])).length > 0,
    );
  });

  it('refuses a read that is ahead of it once the time is over', async () => {
    const { projections } = await start(boats('boats'));
    const reading = projections.waitFor('boats', '9'.repeat(20), 50);
    await expect(reading).rejects.toMatchObject({ code: 'read_model_behind', facts: { retryAfterSeconds: 1 } });
  });

  it('ends the wait of readers when the service stops', async () => {
    const stopping = await start(boats('boats'));
    const reading = stopping.projections.waitFor('boats', '9'.repeat(20), 60_000).catch((error: unknown) => error);
    await stop(stopping);
    expect(await reading).toMatchObject({ code: 'read_model_behind' });
  });

  describe('at an event that a projection can not apply', () => {
    const refusing = (what: (event: StoredEvent) => void) =>
      boats('boats', {
        project(event, rows) {
          if (event.type === 'BoatLoaded' && event.data.tons === 666) what(event);
          boats('boats').project(event, rows);
        },
      });
    const poison = async () => {
      await arrive('Ark', 5);
      const { position, events } = await arrive('Beagle', 666);
      return { position, before: events[0]?.position, last: await arrive('Cutty', 7) };
    };

    it('stops that projection, reports where, serves its rows, and does not affect other projections', async () => {
      const { position, before, last } = await poison();
      const thrower = refusing(() => {
        throw new Error('no such cargo');
      });
      const { projections } = await start(thrower, boats('others'));
      await projections.waitFor('others', last.position);
      await expect(projections.waitFor('boats', last.position)).rejects.toMatchObject({ code: 'read_model_behind' });
      await eventually(async () => (await projections.status())[0]?.status === 'failed');
      expect(await projections.status()).toMatchObject([
        { name: 'boats', status: 'failed', error: `BoatLoaded at ${position}: no such cargo`, position: before },
        { name: 'others', status: 'running', error: null },
      ]);
      expect(await rowsOf('boats')).toMatchObject([
        { name: 'Ark', cargo: '5' },
        { name: 'Beagle', cargo: '0' },
      ]);
      expect(await rowsOf('others')).toHaveLength(3);
    });

    it('does not delay readers on another replica that can do without it', async () => {
      const broken = refusing(() => {
        throw new Error('no such cargo');
      });
      const { projections } = await start(broken);
      const { last } = await poison();
      await eventually(async () => (await projections.status())[0]?.status === 'failed');
      const { projections: elsewhere } = await start(broken);
      const ended: string[] = [];
      await Promise.all([
        elsewhere.waitIfRunning('boats', last.position).then(() => ended.push('went on')),
        elsewhere.waitFor('boats', last.position, 1_500).catch(() => ended.push('refused')),
      ]);
      expect(ended).toEqual(['went on', 'refused']);
    });

    it('names the one event of a batch whose row PostgreSQL refuses', async () => {
      const { position } = await poison();
      const broken = boats('boats', {
        project(event, rows) {
          boats('boats').project(event, rows);
          const key = idOf(event.stream);
          const row = rows.get(key);
          if (row && event.data.tons === 666) rows.set(key, { ...row, cargo: 'not a number' as unknown as number });
        },
      });
      const { projections } = await start(broken);
      await eventually(async () => (await projections.status())[0]?.status === 'failed');
      expect((await projections.status())[0]?.error).toContain(`BoatLoaded at ${position}`);
      expect(await rowsOf('boats')).toMatchObject([
        { name: 'Ark', cargo: '5' },
        { name: 'Beagle', cargo: '0' },
      ]);
    });

    it('continues from there at the next start, once the code can apply it', async () => {
      const { last } = await poison();
      const broken = await start(refusing(() => JSON.parse('{')));
      await eventually(async () => (await broken.projections.status())[0]?.status === 'failed');
      await stop(broken);
      const { projections } = await start(boats('boats'));
      await projections.waitFor('boats', last.position);
      expect(await projections.status()).toMatchObject([{ status: 'running', error: null }]);
      expect(await rowsOf('boats')).toMatchObject([{ cargo: '5' }, { cargo: '666' }, { cargo: '7' }]);
    });
  });

  describe('when its version grew', () => {
    const grown = (project?: BoatProjection['project']) => {
      const old = boats('boats');
      const table = {
        ...old.table,
        columns: { ...old.table.columns, flag: 'text' as const },
        indexes: { ...old.table.indexes, by_flag: '(flag)' },
      };
      const renamed: BoatProjection['project'] = (event, rows) => {
        old.project(event, rows);
        const row = rows.get(idOf(event.stream));
        if (row) rows.set(row.name, Object.assign({ ...row }, { flag: 'red' }));
      };
      return boats('boats', { version: 2, table, project: project ?? renamed });
    };

    it('is filled into another table, with its indexes, while the older program serves and updates the old one', async () => {
      const old = await start(boats('boats'));
      await old.projections.waitFor('boats', (await arrive('Ark', 5)).position);
      const { projections } = await start(grown());
      const { position } = await arrive('Beagle', 6);
      await eventually(async () => (await projections.progress())[0]?.ready === true);
      await projections.waitFor('boats', position);
      const last = await arrive('Cutty', 7);
      for (const each of [old.projections, projections]) await each.waitFor('boats', last.position);
      expect((await projections.status()).map(({ version }) => version)).toEqual([2]);
      expect((await old.projections.status()).map(({ version }) => version)).toEqual([1]);
      expect(await rowsOf('boats', 2)).toMatchObject([
        { name: 'Ark', cargo: '5', flag: 'red' },
        { name: 'Beagle', cargo: '6', flag: 'red' },
        { name: 'Cutty', cargo: '7', flag: 'red' },
      ]);
      expect(await rowsOf('boats')).toMatchObject([{ cargo: '5' }, { cargo: '6' }, { cargo: '7' }]);
      const indexes = await log.database.query(`select indexname from pg_indexes where tablename = 'boats_v2' order by 1`);
      expect(indexes.map(({ indexname }) => indexname)).toEqual(['boats_v2_by_cargo', 'boats_v2_by_flag', 'boats_v2_pkey']);
    });

    it('is not ready while its rows can not be built, and builds them at the next start with code that can; the old rows stay', async () => {
      const old = await start(boats('boats'));
      await arrive('Ark', 5);
      const { position } = await arrive('Beagle', 666);
      await old.projections.waitFor('boats', position);
      await stop(old);
      const choking = grown((event, rows) => {
        if (event.data.tons === 666) throw new Error('choked');
        grown().project(event, rows);
      });
      const first = await start(choking);
      await eventually(async () => (await first.projections.status())[0]?.status === 'failed');
      expect(await first.projections.progress()).toMatchObject([{ ready: false, reason: expect.stringContaining('choked') }]);
      expect(await rowsOf('boats')).toMatchObject([
        { name: 'Ark', cargo: '5' },
        { name: 'Beagle', cargo: '666' },
      ]);
      await stop(first);
      const second = await start(grown());
      await eventually(async () => (await second.projections.progress())[0]?.ready === true);
      expect(await rowsOf('boats', 2)).toMatchObject([
        { name: 'Ark', flag: 'red' },
        { name: 'Beagle', cargo: '666', flag: 'red' },
      ]);
    });
  });
});
