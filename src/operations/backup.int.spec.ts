import { spawn } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { Client } from 'pg';

import { emptyDatabase, type TestDatabase } from '../../test/support/postgres.ts';
import { until } from '../../test/support/until.ts';
import type { Config } from '../kernel/config/config.ts';
import { readConfig } from '../kernel/config/read-config.ts';
import { containerKey } from '../crypto/container-key.ts';
import { DatabaseKeyring } from '../crypto/database-keyring.ts';
import { MasterKeys } from '../crypto/master-keys.ts';
import type { Sealed } from '../crypto/keyring.ts';
import { ShredLedger } from '../crypto/shred-ledger.ts';
import type { Database } from '../postgres/database/database.ts';
import { openDatabase } from '../postgres/database/open-database.ts';
import { EventCatalogue } from '../eventsourcing/event-store/event-catalogue.ts';
import { defineEvent, type JsonObject } from '../eventsourcing/event-store/event-definition.ts';
import { PostgresEventStore } from '../eventsourcing/event-store/postgres/postgres-event-store.ts';
import { backUp, type BackupOptions } from './backup.ts';
import { restore, type RestoreOptions } from './restore.ts';
import { backedUpTables, keyTable, excludedTables } from './tables.ts';

const masterKey = randomBytes(32);
const catalogue = new EventCatalogue([defineEvent<JsonObject>()('Happened', () => 'Something happened')]);
const plainly = { keys: null, shredded: [], replace: false, asCopy: false };

/** The parts of an installation; null if it lacks the part. */
interface Parts {
  key?: Buffer | null;
  instance?: string | null;
}

/** An installation: a data folder, and a database with whatever its services opened. */
class Installation {
  private constructor(
    readonly config: Config,
    readonly test: TestDatabase,
  ) {}

  static async make({ key = masterKey, instance = 'abcdef012345' }: Parts = {}): Promise<Installation> {
    const dataDir = await mkdtemp(join(folder, 'installation-'));
    const test = await emptyDatabase();
    if (instance !== null) await writeFile(join(dataDir, 'instance-id'), `${instance}\n`);
    if (key !== null) await writeFile(join(dataDir, 'master.key'), key.toString('hex'));
    const made = new Installation(readConfig({ MOORING_DATA_DIR: dataDir, DATABASE_URL: test.url }), test);
    installations.push(made);
    return made;
  }

  /** Opens the log and the keys, as a service would, until the work is done. */
  async serve<T>(work: (parts: { database: Database; store: PostgresEventStore; keyring: DatabaseKeyring }) => Promise<T>): Promise<T> {
    const database = await openDatabase({ url: this.test.url, allowUnsafe: true });
    const store = new PostgresEventStore(database, catalogue);
    const keyring = new DatabaseKeyring(database, new MasterKeys(database, masterKey, null), ShredLedger.in(this.config.dataDir));
    await keyring.onModuleInit();
    try {
      return await work({ database, store, keyring });
    } finally {
      await store.close();
      await database.close();
    }
  }

  async backUp(keys: BackupOptions['keys'] = 'included'): Promise<string> {
    const [written] = await backUp(this.config, { to: join(folder, `${randomUUID()}.tar.gz`), keys });
    return written?.file as string;
  }

  restore(from: string, options: Partial<RestoreOptions> = {}) {
    return restore(this.config, catalogue, { ...plainly, from, ...options });
  }

  async rows(text: string): Promise<Record<string, unknown>[]> {
    const client = new Client({ connectionString: this.test.url });
    await client.connect();
    try {
      return (await client.query<Record<string, unknown>>(text)).rows;
    } finally {
      await client.end();
    }
  }
}

const actor = { kind: 'system' as const, id: 'test', name: 'test' };
const metadata = { actor, account_id: null, request_id: null, causation_id: null, ip: null };
const happened = (data: JsonObject = {}) => ({ id: randomUUID(), type: 'Happened', schemaVersion: 1, data, metadata });
const log = 'select * from es_event order by position';

let folder: string;
const installations: Installation[] = [];

beforeAll(async () => (folder = await mkdtemp(join(tmpdir(), 'mooring-backup-'))));
afterAll(async () => {
  for (const { test } of installations) await test.drop();
  await rm(folder, { recursive: true, force: true });
});

/** Creates an installation with a few events, a sign-in, and one encrypted text. */
async function filled(): Promise<{ from: Installation; subject: string; sealed: Sealed }> {
  const from = await Installation.make();
  const subject = randomUUID();
  const sealed = await from.serve(async ({ database, store, keyring }) => {
    await store.append('agent-1', 'no_stream', [happened({ text: 'a\tb\\c\nd "é" 𝄞' }), happened()]);
    await store.append('log-1', 'no_stream', [happened()]);
    await store.closeStream('agent-1', 1);
    await database.query(`insert into account_credentials (account_id, email, password) values ('1', 'a@b.c', 'scrypt:…')`);
    await database.query(`insert into consumer_leases (name, owner, epoch, expires_at) values ('x', 'y', 7, now() + interval '1 hour')`);
    return keyring.seal(subject, 'c', 'secret');
  });
  return { from, subject, sealed };
}

const opened = (installation: Installation, subject: string, sealed: Sealed) =>
  installation.serve(({ keyring }) => keyring.open(subject, 'c', sealed));

describe('A backup', () => {
  it('includes or excludes every table explicitly', async () => {
    const { from } = await filled();
    const tables = await from.rows(`select tablename from pg_tables where schemaname = 'public' and tablename <> 'mooring_migration'`);
    const known = [...Object.keys(backedUpTables), keyTable, ...excludedTables];
    expect(tables.filter(({ tablename }) => !known.includes(tablename as string))).toEqual([]);
  });

  it('is one file that only its owner can read, and restores the log, the keys and the sign-ins unchanged', async () => {
    const { from, subject, sealed } = await filled();
    const file = await from.backUp();
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect((await readFile(file)).includes(masterKey)).toBe(false);
    const to = await Installation.make({ instance: null });
    await to.restore(file);
    for (const table of [...Object.keys(backedUpTables), keyTable])
      expect(await to.rows(`select * from ${table} order by 1`)).toEqual(await from.rows(`select * from ${table} order by 1`));
    expect(await to.rows('select * from consumer_leases')).toEqual([]);
    expect(await readFile(join(to.config.dataDir, 'instance-id'), 'utf8')).toBe('abcdef012345\n');
    expect(await opened(to, subject, sealed)).toBe('secret');
    await to.serve(async ({ store }) => {
      expect(await store.append('agent-2', 'no_stream', [happened()])).toMatchObject({ position: '3'.padStart(20, '0') });
      await expect(store.append('agent-1', 1, [happened()])).rejects.toThrow(/closed/);
    });
  });

  it('contains, under 20 writers, everything up to one moment, and all that was acknowledged before it began', async () => {
    const from = await Installation.make();
    const { file, acknowledged } = await from.serve(async ({ store }) => {
      const stop = new AbortController();
      let newest = '';
      const writers = Array.from({ length: 20 }, async (_, writer) => {
        for (let revision = -1; !stop.signal.aborted; revision += 1) {
          const { position } = await store.append(`agent-${writer}`, revision < 0 ? 'no_stream' : revision, [happened({ revision })]);
          if (position > newest) newest = position;
        }
      });
      await until('there is a log to speak of', () => (Number(newest) > 2_000 ? true : undefined));
      const before = newest;
      const backup = await from.backUp();
      await until('the writers went on', () => (Number(newest) > Number(before) + 100 ? true : undefined));
      stop.abort();
      await Promise.all(writers);
      return { file: backup, acknowledged: Number(before) };
    });
    const to = await Installation.make();
    const { manifest } = await to.restore(file);
    const head = Number(manifest.heads.core);
    expect(head).toBeGreaterThanOrEqual(acknowledged);
    const kept = await to.rows(log);
    expect(kept.map(({ position }) => Number(position))).toEqual(Array.from({ length: head }, (_, before) => before + 1));
    expect(kept).toEqual((await from.rows(log)).slice(0, head));
  });

  it('leaves no file if it fails, and is never overwritten', async () => {
    const { from } = await filled();
    const file = await from.backUp();
    await expect(backUp(from.config, { to: file, keys: 'included' })).rejects.toThrow(/exists already/);
    const empty = join(folder, randomUUID());
    await mkdir(empty);
    const blocked = join(empty, 'full.tar.gz');
    await from.rows('alter table agent_activity rename to elsewhere');
    await expect(backUp(from.config, { to: blocked, keys: 'included' })).rejects.toThrow(/agent_activity/);
    expect(await readdir(empty)).toEqual([]);
  });

  it('of keys is refused while a rotation rewraps them, since a restore needs a single master key; one without keys is written', async () => {
    const { from } = await filled();
    await from.serve(({ keyring }) => keyring.seal(randomUUID(), 'c', 'another'));
    await from.rows(`update data_keys set kek_id = 'another' where subject = (select min(subject) from data_keys)`);
    const to = join(folder, randomUUID());
    await mkdir(to);
    for (const keys of ['included', 'only', { apart: to }] as const)
      await expect(backUp(from.config, { to, keys })).rejects.toThrow(/rotation of the master key/);
    expect(await readdir(to)).toEqual([]);
    await backUp(from.config, { to, keys: 'none' });
    expect(await readdir(to)).toHaveLength(1);
  });
});

describe('The key by which an installation recognises its containers', () => {
  const keyOf = (installation: Installation) => installation.serve(({ keyring }) => containerKey(keyring));

  it('is kept when a backup from before there was such a key replaces the database', async () => {
    const { from, subject, sealed } = await filled();
    const older = await from.backUp();
    const key = await keyOf(from);
    await from.restore(older, { replace: true });
    expect((await keyOf(from)).equals(key)).toBe(true);
    expect(await opened(from, subject, sealed)).toBe('secret');
  });

  it('is that of the backup, if the backup has one', async () => {
    const { from } = await filled();
    const key = await keyOf(from);
    const other = await Installation.make();
    await other.serve(({ store }) => store.append('agent-1', 'no_stream', [happened()]));
    expect((await keyOf(other)).equals(key)).toBe(false);
    await other.restore(await from.backUp(), { replace: true });
    expect((await keyOf(other)).equals(key)).toBe(true);
  });
});

describe('A shredded subject', () => {
  /** Checks the keys before any service has started. */
  const noKeysIn = async (to: Installation) =>
    expect(await to.rows('select subject, wrapped is null as shredded from data_keys')).toEqual([
      { subject: expect.any(String), shredded: true },
    ]);

  it('stays shredded in the database that a backup replaces', async () => {
    const { from, subject, sealed } = await filled();
    const older = await from.backUp();
    await from.serve(({ keyring }) => keyring.shred(subject));
    await rm(join(from.config.dataDir, 'shredded.jsonl'));
    expect(await from.restore(older, { replace: true })).toMatchObject({ shredded: 1 });
    await noKeysIn(from);
    expect(await opened(from, subject, sealed)).toBeNull();
  });

  it('stays shredded in a new database, by the ledger or by newer keys', async () => {
    const { from, subject, sealed } = await filled();
    const older = await from.backUp();
    await from.serve(({ keyring }) => keyring.shred(subject));
    const keys = await from.backUp('only');
    const byKeys = await Installation.make();
    await byKeys.restore(older, { keys });
    await noKeysIn(byKeys);
    expect(await opened(byKeys, subject, sealed)).toBeNull();
    const byLedger = await Installation.make();
    await byLedger.restore(older, { shredded: [join(from.config.dataDir, 'shredded.jsonl')] });
    expect(await opened(byLedger, subject, sealed)).toBeNull();
    // The subject is in this ledger too by now, so a second restore needs no other one.
    await byLedger.restore(older, { replace: true });
    await noKeysIn(byLedger);
    expect(await opened(byLedger, subject, sealed)).toBeNull();
    await expect(byLedger.restore(older, { replace: true, shredded: [join(folder, 'none')] })).rejects.toThrow(/there is no file/);
  });

  it('is not restored by older keys in a separate file, and a log without keys is refused', async () => {
    const { from, subject, sealed } = await filled();
    const files = await backUp(from.config, { to: join(folder, `${randomUUID()}.tar.gz`), keys: { apart: folder } });
    const [backup, apart] = files.map(({ file }) => file) as [string, string];
    const to = await Installation.make();
    await expect(to.restore(backup)).rejects.toThrow(/without keys/);
    await expect(to.restore(apart)).rejects.toThrow(/contains only keys/);
    await to.restore(backup, { keys: apart });
    expect(await opened(to, subject, sealed)).toBe('secret');
    const newer = await from.backUp();
    await expect(to.restore(newer, { keys: apart, replace: true })).rejects.toThrow(/older/);
  });
});

describe('A restore', () => {
  const untouched = async (to: Installation) =>
    expect(await to.rows(`select tablename from pg_tables where schemaname = 'public'`)).toEqual([]);

  it('refuses a file that is cut off, changed, or no backup, and writes nothing', async () => {
    const { from } = await filled();
    const to = await Installation.make();
    const file = await from.backUp();
    const whole = await readFile(file);
    for (const at of [0, 20, Math.floor(whole.length / 2), whole.length - 5]) {
      const changed = Buffer.from(whole);
      changed[at] = (changed[at] as number) ^ 0x10;
      await writeFile(file, changed);
      await expect(to.restore(file)).rejects.toThrow(/is damaged or no backup/);
    }
    await writeFile(file, whole);
    await truncate(file, whole.length - 200);
    await expect(to.restore(file)).rejects.toThrow(/is damaged or no backup/);
    await writeFile(file, 'something else');
    await expect(to.restore(file)).rejects.toThrow(/is damaged or no backup/);
    await untouched(to);
  });

  it('refuses a wrong or missing master key', async () => {
    const { from } = await filled();
    const file = await from.backUp();
    const other = await Installation.make({ key: randomBytes(32) });
    await expect(other.restore(file)).rejects.toThrow(/the master key does not match the keys/);
    await untouched(other);
    const none = await Installation.make({ key: null });
    await expect(none.restore(file)).rejects.toThrow(/the master key is missing/);
    await untouched(none);
    expect(await readdir(none.config.dataDir)).toEqual(['instance-id']);
  });

  it('refuses the folder of another installation, unless it makes a copy', async () => {
    const { from } = await filled();
    const file = await from.backUp();
    const other = await Installation.make({ instance: '012345abcdef' });
    await expect(other.restore(file)).rejects.toThrow(/belongs to installation 012345abcdef/);
    await other.restore(file, { asCopy: true });
    expect(await readFile(join(other.config.dataDir, 'instance-id'), 'utf8')).toBe('012345abcdef\n');
    await expect(from.restore(file, { asCopy: true, replace: true })).rejects.toThrow(/a copy needs a folder of its own/);
  });

  it('replaces nothing without --replace, and nothing while services run', async () => {
    const { from } = await filled();
    const file = await from.backUp();
    await expect(from.restore(file)).rejects.toThrow(/give --replace/);
    await from.serve(async ({ store }) => {
      await store.append('agent-9', 'no_stream', [happened()]);
      await expect(from.restore(file, { replace: true })).rejects.toThrow(/stop every service/);
    });
    await from.restore(file, { replace: true });
    expect(await from.rows(`select count(*)::int as events from es_event`)).toEqual([{ events: 2 }]);
    await expect(from.rows('delete from es_event')).rejects.toThrow(/events are never changed/);
  });

  it('waits for a connection that is about to end', async () => {
    const { from } = await filled();
    const file = await from.backUp();
    const last = new Client({ connectionString: from.test.url });
    await last.connect();
    const counted = `select from pg_stat_activity where datname = current_database() and query like '%client backend%' and pid <> pg_backend_pid()`;
    const restoring = from.restore(file, { replace: true });
    const noticed = until('the restore has seen the connection', async () => ((await last.query(counted)).rowCount ? true : undefined));
    await Promise.race([noticed, restoring]);
    await last.end();
    await expect(restoring).resolves.toMatchObject({ deletedAgain: [] });
  });

  it('leaves nothing that a service would start on if it is killed, and can be repeated', async () => {
    const from = await Installation.make();
    await from.serve(({ store }) => store.append('agent-1', 'no_stream', [happened()]));
    await from.rows(`insert into es_event select n, 'agent-x', n - 2, gen_random_uuid(), 'Happened', 1, json_build_object('text', repeat(md5(n::text), 20)), '{}', 700, now()
      from generate_series(2, 100000) n`);
    const file = await from.backUp();
    for (const filledBefore of [false, true]) {
      const to = await Installation.make();
      if (filledBefore) await to.serve(({ store }) => store.append('agent-mine', 'no_stream', [happened()]));
      await killedInTheMiddle(to, [file, ...(filledBefore ? ['--replace'] : [])]);
      // Existing content is unchanged; a new database is recognized as half restored.
      if (filledBefore) expect(await to.rows('select stream from es_event')).toEqual([{ stream: 'agent-mine' }]);
      else await expect(to.serve(async () => undefined)).rejects.toThrow(/a restore into this database was interrupted/);
      await to.restore(file, { replace: filledBefore });
      expect(await to.rows('select count(*)::int as events from es_event')).toEqual([{ events: 100_000 }]);
      await to.serve(({ store }) => store.append('agent-2', 'no_stream', [happened()]));
    }
  });

  async function killedInTheMiddle(to: Installation, words: string[]): Promise<void> {
    const root = resolve(import.meta.dirname, '../..');
    const args = ['--import', join(root, 'scripts/typescript.mjs'), join(root, 'src/bin/restore.ts'), ...words];
    const environment = {
      PATH: process.env.PATH,
      MOORING_DATA_DIR: to.config.dataDir,
      DATABASE_URL: to.test.url,
    };
    const child = spawn(process.execPath, args, { cwd: root, env: environment, stdio: 'ignore' });
    const ended = once(child, 'exit');
    // The progress is read in another database, because the restore refuses other connections to its own.
    const beside = new Client({ connectionString: process.env.MOORING_TEST_POSTGRES });
    await beside.connect();
    const rowsComeIn = async () => {
      if (child.exitCode !== null) throw new Error(`the restore ended with exit code ${child.exitCode} before it was killed`);
      const found = await beside.query(
        `select from pg_stat_progress_copy where datname = $1 and command = 'COPY FROM' and tuples_processed > 1000`,
        [new URL(to.test.url).pathname.slice(1)],
      );
      return found.rowCount === 1 ? true : undefined;
    };
    try {
      await until('rows come in', rowsComeIn, { everyMs: 2 });
    } finally {
      await beside.end();
    }
    child.kill('SIGKILL');
    await ended;
    await until('the server has undone it', async () => {
      const others = await to.rows(`select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`);
      return others.length === 0 ? true : undefined;
    });
  }
});
