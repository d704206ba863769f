import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fc from 'fast-check';
import { v7 as uuidv7 } from 'uuid';

import { type SampleProjection, sampleProjection, ProjectionProcess, holdBulkReads } from '../../../../test/support/sample-projection.ts';
import { sampleEvent } from '../../../../test/support/sample-event.ts';
import { appendTo, eventually, operate } from '../../../../test/support/log.ts';
import { freshDatabase, type TestDatabase } from '../../../../test/support/postgres.ts';
import { systemContext } from '../../../kernel/context/command-context.ts';
import { rebuildDecider, rebuildStream, type RebuildCommand } from './rebuild.decider.ts';

let test: TestDatabase;
let harbour: ProjectionProcess;
const others: ProjectionProcess[] = [];

beforeEach(async () => {
  test = await freshDatabase();
  harbour = await ProjectionProcess.open(test.url);
});
afterEach(async () => {
  for (const other of [harbour, ...others.splice(0)]) await other.close();
  await test.drop();
});

const append = (boat: string, type: string, data = {}) => appendTo(harbour.log.store, `boat-${boat}`, sampleEvent(type, data));
const textOf = async () => JSON.stringify(await harbour.log.database.query('select b::text from boats_v1 b order by name'));
const say = async (command: RebuildCommand) =>
  (await harbour.log.aggregates.execute(rebuildStream('boats_v1'), rebuildDecider, command, systemContext('test', null))).state;

async function outcomes(): Promise<string[]> {
  const types: string[] = [];
  for await (const { type } of harbour.log.store.readStream(rebuildStream('boats_v1'))) types.push(type);
  return types;
}

async function order(): Promise<string> {
  const rebuildId = uuidv7();
  await say({ type: 'RequestRebuild', rebuildId });
  return rebuildId;
}

async function rebuilt(): Promise<void> {
  const before = (await outcomes()).filter((type) => type === 'ProjectionRebuilt').length;
  await order();
  await eventually(async () => (await outcomes()).filter((type) => type === 'ProjectionRebuilt').length > before, 'the rebuild');
}

async function filled(...names: string[]): Promise<void> {
  for (const name of names) {
    await append(name, 'BoatArrived', { note: `of ${name}` });
    await append(name, 'BoatLoaded', { tons: 5 });
  }
  await harbour.projections.waitFor('boats', await harbour.log.store.head('core'));
}

/** Returns the tables of rebuilds that ended or were interrupted, their checkpoints, and the progress rows. */
async function leftovers(): Promise<unknown[]> {
  return harbour.log.database.query(
    `select tablename as left from pg_tables where tablename ~ '^boats_v1_' union all
     select table_name from projection_checkpoints where table_name <> 'boats_v1' union all select table_name from projection_rebuilds`,
  );
}

it('results, for any history, in the same rows byte by byte, as a comparison confirms', async () => {
  const note = fc.string({ unit: 'binary', maxLength: 12 }).filter((text) => !text.includes('\0'));
  const step = fc.record({
    boat: fc.constantFrom('Ark', 'Beagle', 'Cutty'),
    type: fc.constantFrom('BoatArrived', 'BoatLoaded', 'BoatLoaded', 'BoatLeft'),
    note: fc.oneof(note, fc.constantFrom('\\', '\t"\n', '{"a,b"}', 'NULL', '\\N', '', "'")),
    tons: fc.integer({ min: -9, max: 2 ** 40 }),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 12 }), async (steps) => {
      for (const { boat, type, ...data } of steps) await append(boat, type, data);
      await harbour.projections.waitFor('boats', await harbour.log.store.head('core'));
      const live = await textOf();
      expect(await harbour.projections.verify('boats')).toMatchObject({ equal: true, differences: [] });
      await rebuilt();
      expect(await textOf()).toBe(live);
      expect(await harbour.projections.verify('boats')).toMatchObject({ equal: true });
    }),
    { numRuns: 12 },
  );
  expect(await leftovers()).toEqual([]);
});

it('runs while rows are written and read: no read fails, nothing is lost or counted twice', async () => {
  await filled('Ark', 'Beagle');
  const end = new AbortController();
  let tons = 10;
  const writing = Array.from({ length: 4 }, async (_, writer) => {
    for (; !end.signal.aborted; tons += 1)
      await append(`Boat${writer}`, 'BoatArrived').then(() => append('Ark', 'BoatLoaded', { tons: 1 }).catch(() => (tons -= 1)));
  });
  const reading = Array.from({ length: 4 }, async () => {
    while (!end.signal.aborted)
      expect(await harbour.log.database.query(`select from boats_v1 where name in ('Ark', 'Beagle')`)).toHaveLength(2);
  });
  for (let n = 0; n < 3; n += 1) await rebuilt();
  end.abort();
  await Promise.all([...writing, ...reading]);
  await harbour.projections.waitFor('boats', await harbour.log.store.head('core'));
  const [ark] = await harbour.log.database.query(`select cargo from boats_v1 where name = 'Ark'`);
  expect(ark).toEqual({ cargo: String(tons - 5) });
  expect(await harbour.projections.verify('boats')).toMatchObject({ equal: true, rows: 6 });
  const indexes = await harbour.log.database.query(`select indexname from pg_indexes where tablename = 'boats_v1' order by 1`);
  expect(indexes.map(({ indexname }) => indexname)).toEqual(['boats_v1_by_cargo', 'boats_v1_laden', 'boats_v1_pkey']);
});

it('runs once, however often it is requested, and shows its progress on every replica', async () => {
  await filled('Ark');
  const hold = holdBulkReads(harbour.log);
  const id = await order();
  await eventually(hold.held, 'the fold');
  expect((await say({ type: 'RequestRebuild', rebuildId: uuidv7() })).running).toBe(id);
  const replica = await ProjectionProcess.open(test.url);
  others.push(replica);
  const told = (await replica.projections.rebuilds()).get('boats');
  expect(told).toMatchObject({ id, table: 'boats_v1', reason: 'requested', phase: 'folding', target: expect.stringMatching(/3$/) });
  expect((await replica.projections.status())[0]?.status).toBe('rebuilding');
  hold.release();
  await eventually(async () => (await outcomes()).at(-1) === 'ProjectionRebuilt', 'the end');
  await eventually(async () => (await replica.projections.status())[0]?.status === 'running', 'the status');
  expect(await replica.projections.rebuilds()).toEqual(new Map());
});

it('is executed by the replica that writes the rows, although another received the request', async () => {
  const replica = await ProjectionProcess.open(test.url);
  others.push(replica);
  await filled('Ark');
  const rebuildId = uuidv7();
  await replica.log.aggregates.execute(
    rebuildStream('boats_v1'),
    rebuildDecider,
    { type: 'RequestRebuild', rebuildId },
    systemContext('test', null),
  );
  await eventually(async () => (await outcomes()).at(-1) === 'ProjectionRebuilt', 'the end');
  const [row] = await harbour.log.database.query('select rebuild_id from projections');
  expect(row).toEqual({ rebuild_id: rebuildId });
});

it('is canceled without a trace: the previous rows keep serving, and another rebuild may be requested', async () => {
  await filled('Ark');
  const before = await textOf();
  const hold = holdBulkReads(harbour.log);
  await order();
  await eventually(hold.held, 'the fold');
  await say({ type: 'CancelRebuild' });
  hold.release();
  await eventually(async () => (await leftovers()).length === 0, 'the clearing up');
  expect([await outcomes(), await textOf()]).toEqual([['ProjectionRebuildRequested', 'ProjectionRebuildCanceled'], before]);
  await expect(say({ type: 'CancelRebuild' })).rejects.toMatchObject({ code: 'invalid_state' });
  await filled('Beagle');
  await rebuilt();
  expect(await harbour.projections.verify('boats')).toMatchObject({ equal: true, rows: 2 });
});

it('replaces the old rows only once their readers have finished, and does not block new readers meanwhile', async () => {
  await filled('Ark');
  const before = await harbour.log.database.query(`select 'boats_v1'::regclass::oid as table`);
  const slow = await harbour.log.database.pool.connect();
  await slow.query('begin');
  await slow.query('select from boats_v1');
  await order();
  await eventually(async () => (await harbour.projections.rebuilds()).get('boats')?.phase === 'catching_up', 'the change-over');
  for (let n = 0; n < 20; n += 1) expect(await harbour.log.database.query('select from boats_v1')).toHaveLength(1);
  expect(await harbour.log.database.query(`select 'boats_v1'::regclass::oid as table`)).toEqual(before);
  await slow.query('commit');
  slow.release();
  await eventually(async () => (await outcomes()).at(-1) === 'ProjectionRebuilt', 'the end');
  expect(await harbour.log.database.query(`select 'boats_v1'::regclass::oid as table`)).not.toEqual(before);
});

it('runs again by itself after a kill -9 in its middle, and the leftovers are removed', async () => {
  await filled('Ark');
  await harbour.close();
  const program = `
    const { ProjectionProcess, sampleProjection, holdBulkReads } = await import('./test/support/sample-projection.ts');
    const { eventually } = await import('./test/support/log.ts');
    let hold;
    await ProjectionProcess.open(process.env.DATABASE_URL, [sampleProjection], (log) => (hold = holdBulkReads(log)));
    process.stdout.write('ready ');
    await eventually(() => hold.held());
    process.stdout.write('folding');`;
  const child = spawn(process.execPath, ['--import', './scripts/typescript.mjs', '--input-type=module', '-e', program], {
    env: { ...process.env, DATABASE_URL: test.url },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let said = '';
  child.stdout.on('data', (text: Buffer) => (said += String(text)));
  await eventually(() => said.includes('ready'), 'the other process');
  // The other process has the lease; this one only places the order.
  harbour = await ProjectionProcess.open(test.url);
  await order();
  await eventually(() => said.includes('folding'), 'the fold');
  const exit = once(child, 'exit');
  child.kill('SIGKILL');
  await exit;
  expect(await leftovers()).not.toEqual([]);
  await eventually(async () => (await outcomes()).at(-1) === 'ProjectionRebuilt', 'the end');
  await eventually(async () => (await leftovers()).length === 0, 'the clearing up');
  expect(await harbour.projections.verify('boats')).toMatchObject({ equal: true, rows: 1 });
});

it('fails at an event that can not be applied, reports why, and leaves the serving rows unchanged', async () => {
  await filled('Ark');
  await harbour.close();
  const choking: SampleProjection = {
    ...sampleProjection,
    project(event, rows) {
      if (event.data.tons === 5) throw new Error('no such cargo');
      sampleProjection.project(event, rows);
    },
  };
  harbour = await ProjectionProcess.open(test.url, [choking]);
  await order();
  await eventually(async () => (await outcomes()).at(-1) === 'ProjectionRebuildFailed', 'the failure');
  await append('Beagle', 'BoatArrived');
  await harbour.projections.waitFor('boats', await harbour.log.store.head('core'));
  expect(await harbour.log.database.query('select cargo from boats_v1 order by name')).toEqual([{ cargo: '5' }, { cargo: '0' }]);
});

it('restarts a stopped read model, once it can apply every event of the log', async () => {
  await filled('Ark');
  // The table refuses one row for as long as this constraint exists.
  await operate(test.url, 'alter table boats_v1 add check (cargo < 10)');
  await append('Ark', 'BoatLoaded', { tons: 5 });
  await eventually(async () => (await harbour.projections.status())[0]?.status === 'failed', 'the stop');
  await rebuilt();
  await harbour.projections.waitFor('boats', await harbour.log.store.head('core'));
  expect(await harbour.log.database.query('select cargo from boats_v1')).toEqual([{ cargo: '10' }]);
  expect(await harbour.projections.status()).toMatchObject([{ status: 'running', error: null }]);
});

describe('a comparison', () => {
  it('finds a changed row, a missing one and an unexpected one, by key and column, and reveals no value', async () => {
    await filled('Ark', 'Beagle', 'Cutty');
    await operate(test.url, `update boats_v1 set cargo = 6, note = 'canary-note' where name = 'Ark'`);
    await operate(test.url, `delete from boats_v1 where name = 'Beagle'`);
    await operate(
      test.url,
      `insert into boats_v1 select 'Dove', cargo, holds, note, arrived_at, seen_at, papers, stamps, gone from boats_v1 where name = 'Cutty'`,
    );
    const compared = await harbour.projections.verify('boats');
    expect(compared).toEqual({
      equal: false,
      position: await harbour.log.store.head('core'),
      rows: 3,
      differences: [
        { key: 'Ark', kind: 'different', columns: ['cargo', 'note'] },
        { key: 'Beagle', kind: 'missing', columns: [] },
        { key: 'Dove', kind: 'unexpected', columns: [] },
      ],
    });
    await rebuilt();
    expect(await harbour.projections.verify('boats')).toMatchObject({ equal: true, rows: 3 });
  });

  it('compares as of one position, although events are appended meanwhile, and disturbs no reader or writer', async () => {
    await filled('Ark');
    const hold = holdBulkReads(harbour.log);
    const comparing = harbour.projections.verify('boats');
    await eventually(hold.held, 'the fold');
    await filled('Beagle');
    hold.release();
    expect(await comparing).toMatchObject({ equal: true, rows: 1 });
  });
});

describe('a read model that was lost', () => {
  const lose: [string, string][] = [
    ['its table', 'drop table boats_v1'],
    ['what is known of it', 'delete from projections'],
    ['its checkpoint', 'delete from projection_checkpoints'],
    ['all of it', 'drop table boats_v1; delete from projections; delete from projection_checkpoints'],
  ];
  it.each(lose)('is rebuilt from the log at the next start: %s', async (_, statement) => {
    await filled('Ark', 'Beagle');
    const before = await textOf();
    await harbour.close();
    await operate(test.url, statement);
    harbour = await ProjectionProcess.open(test.url);
    await harbour.projections.waitUntilFilled('boats');
    expect(await textOf()).toBe(before);
    await filled('Cutty');
    expect(await harbour.projections.verify('boats')).toMatchObject({ equal: true, rows: 3 });
    expect(await leftovers()).toEqual([]);
  });

  it('is not read while it is being filled, on any replica; a read that waits long enough succeeds', async () => {
    await filled('Ark');
    await harbour.close();
    await operate(test.url, 'drop table boats_v1');
    let hold!: ReturnType<typeof holdBulkReads>;
    harbour = await ProjectionProcess.open(test.url, [sampleProjection], (log) => (hold = holdBulkReads(log)));
    const replica = await ProjectionProcess.open(test.url);
    others.push(replica);
    await eventually(hold.held, 'the fold');
    for (const { projections } of [harbour, replica]) {
      expect(await projections.progress()).toMatchObject([{ name: 'boats', ready: false, serving: false }]);
      await expect(projections.waitFor('boats', await harbour.log.store.head('core'), 20)).rejects.toMatchObject({
        code: 'read_model_behind',
      });
    }
    const reading = Promise.all([harbour, replica].map(({ projections }) => projections.waitUntilFilled('boats')));
    hold.release();
    await reading;
    expect(await replica.projections.progress()).toEqual([{ name: 'boats', ready: true, serving: true, reason: null }]);
  });
});
