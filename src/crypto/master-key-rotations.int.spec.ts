import { randomBytes, randomUUID } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { freshDatabase, type TestDatabase } from '../../test/support/postgres.ts';
import type { Database } from '../postgres/database/database.ts';
import { openDatabase } from '../postgres/database/open-database.ts';
import { containerKey } from './container-key.ts';
import { DatabaseKeyring } from './database-keyring.ts';
import { keyIdOf } from './envelope.ts';
import type { Sealed } from './keyring.ts';
import { loadMasterKey, MasterKeyFile } from './master-key.ts';
import { type MasterKeyRotation, MasterKeyRotations, type RotationRequester } from './master-key-rotations.ts';
import { MasterKeys, UnknownMasterKey } from './master-keys.ts';
import { ShredLedger } from './shred-ledger.ts';

const by: RotationRequester = {
  actor: { kind: 'session', id: 'root', name: 'root' },
  accountId: 'root',
  requestId: 'request-1',
  causationId: null,
  ip: null,
};

/** A process that stores the master key in a folder of its own, or gets it from the operator. */
interface Process {
  keys: MasterKeys;
  keyring: DatabaseKeyring;
  rotations: MasterKeyRotations;
}

describe('a rotation of the master key', () => {
  let test: TestDatabase;
  let database: Database;
  let folder: string;
  let ledger: ShredLedger;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'mooring-rotation-'));
    ledger = ShredLedger.in(folder);
    test = await freshDatabase();
    database = await openDatabase({ url: test.url, allowUnsafe: true });
  });
  afterEach(async () => {
    await database.close();
    await test.drop();
    await rm(folder, { recursive: true, force: true });
  });

  async function started(keys: MasterKeys): Promise<Process> {
    const keyring = new DatabaseKeyring(database, keys, ledger);
    await keyring.onModuleInit();
    return { keys, keyring, rotations: new MasterKeyRotations(database, keys) };
  }
  const startedWith = (key: Buffer) => started(new MasterKeys(database, key, null));
  const startedIn = async (dataDir = folder) => {
    const key = await loadMasterKey({ masterKey: null, dataDir }, () => undefined);
    return started(new MasterKeys(database, key, new MasterKeyFile(dataDir)));
  };

  /** Announces a living replica with its newest key, as a replica does every few seconds. */
  async function announce(owner: string, keyId: string | null): Promise<void> {
    await database.query(
      `insert into program_replicas (owner, program, tables, catalogue, master_key_id) values ($1, 'test', '{}', '{}', $2)
       on conflict (owner) do update set master_key_id = excluded.master_key_id, seen_at = now()`,
      [owner, keyId],
    );
  }

  async function rewrapAll({ rotations }: Process, rotation: MasterKeyRotation): Promise<string[]> {
    const damaged: string[] = [];
    for (const block of await rotations.batches()) damaged.push(...(await rotations.rewrap(rotation, block)).damaged);
    return damaged;
  }

  async function carryOut(process: Process, rotation: MasterKeyRotation): Promise<void> {
    await process.rotations.share(rotation);
    await rewrapAll(process, rotation);
    expect(await process.rotations.removeOldKey(rotation)).toBe(true);
    await process.rotations.finish(rotation);
  }

  async function sealed({ keyring }: Process, count: number): Promise<Map<string, Sealed>> {
    const subjects = Array.from({ length: count }, () => randomUUID());
    return new Map(await Promise.all(subjects.map(async (subject) => [subject, await keyring.seal(subject, 'c', subject)] as const)));
  }

  async function expectReadable({ keyring }: Process, values: Map<string, Sealed>): Promise<void> {
    for (const [subject, value] of values) expect(await keyring.open(subject, 'c', value)).toBe(subject);
  }

  const masterKeysInUse = async () =>
    (await database.query<{ kek_id: string }>('select distinct kek_id from data_keys where wrapped is not null')).map(
      ({ kek_id }) => kek_id,
    );

  it('rewraps every data key; then the old key opens nothing, and is refused at a start', async () => {
    const [oldKey, newKey] = [randomBytes(32), randomBytes(32)];
    const process = await startedWith(oldKey);
    const values = await sealed(process, 20);
    await carryOut(process, await process.rotations.begin(newKey, by));
    expect(await masterKeysInUse()).toEqual([keyIdOf(newKey)]);
    await expectReadable(process, values);
    await expectReadable(await startedWith(newKey), values);
    await expect(startedWith(oldKey)).rejects.toThrow(UnknownMasterKey);
    expect(await database.query('select from master_key_exchange')).toEqual([]);
    expect(await database.query('select old_wrapped from master_key_rotations')).toEqual([{ old_wrapped: null }]);
  });

  it('does not change the key by which the installation recognises its containers', async () => {
    const [oldKey, newKey] = [randomBytes(32), randomBytes(32)];
    const process = await startedWith(oldKey);
    const before = await containerKey(process.keyring);
    const rotation = await process.rotations.begin(newKey, by);
    expect((await containerKey((await startedWith(oldKey)).keyring)).equals(before)).toBe(true);
    await carryOut(process, rotation);
    expect((await containerKey((await startedWith(newKey)).keyring)).equals(before)).toBe(true);
    await expect(containerKey(new DatabaseKeyring(database, new MasterKeys(database, oldKey, null), ledger))).rejects.toThrow(
      UnknownMasterKey,
    );
  });

  it('continues at any step after a start with either of the two keys', async () => {
    const [oldKey, newKey] = [randomBytes(32), randomBytes(32)];
    const values = await sealed(await startedWith(oldKey), 3);
    const rotation = await (await startedWith(oldKey)).rotations.begin(newKey, by);
    for (const key of [oldKey, newKey]) await expectReadable(await startedWith(key), values);
    await rewrapAll(await startedWith(oldKey), rotation);
    for (const key of [oldKey, newKey]) await expectReadable(await startedWith(key), values);
    await carryOut(await startedWith(newKey), rotation);
    await expectReadable(await startedWith(newKey), values);
  });

  it('continues with the new key if a crash of PostgreSQL emptied the table from which others read it', async () => {
    const [oldKey, newKey] = [randomBytes(32), randomBytes(32)];
    const values = await sealed(await startedWith(oldKey), 3);
    const rotation = await (await startedWith(oldKey)).rotations.begin(newKey, by);
    await database.query('delete from master_key_exchange');
    await expect(startedWith(oldKey)).rejects.toThrow(UnknownMasterKey);
    const process = await startedWith(newKey);
    await process.rotations.share(rotation);
    await expectReadable(await startedWith(oldKey), values);
    await carryOut(process, rotation);
  });

  it('reaches a replica that was suspended throughout, and removes the old key only once this replica has the new one', async () => {
    const [oldKey, newKey] = [randomBytes(32), randomBytes(32)];
    const [process, suspended] = [await startedWith(oldKey), await startedWith(oldKey)];
    const values = await sealed(suspended, 5);
    await announce('suspended', keyIdOf(oldKey));
    const rotation = await process.rotations.begin(newKey, by);
    await rewrapAll(process, rotation);
    expect(await process.rotations.remaining(rotation)).toEqual({ keys: 0, replicas: 1 });
    expect(await process.rotations.removeOldKey(rotation)).toBe(false);
    await expectReadable(suspended, values);
    await expectReadable(suspended, await sealed(suspended, 3));
    await announce('suspended', await suspended.keys.refresh());
    expect(await process.rotations.removeOldKey(rotation)).toBe(true);
    expect(await masterKeysInUse()).toEqual([keyIdOf(newKey)]);
  });

  it('fails no seal, open or shred on any replica, and restores no shredded key', async () => {
    const process = await startedIn();
    const other = await startedWith(await loadMasterKey({ masterKey: null, dataDir: folder }, () => undefined));
    const values = await sealed(process, 1_500);
    const shredded = new Set<string>();
    const ending = new AbortController();
    const work = async ({ keyring }: Process, from: number) => {
      const subjects = [...values.keys()];
      for (let n = from; !ending.signal.aborted; n = (n + 7) % subjects.length) {
        const subject = subjects[n] as string;
        if (n % 5 === 0) {
          shredded.add(subject);
          await keyring.shred(subject);
        } else if (!shredded.has(subject)) {
          const opened = await keyring.open(subject, 'c', values.get(subject) as Sealed);
          expect(opened === subject || shredded.has(subject)).toBe(true);
        }
        const fresh = randomUUID();
        expect(await keyring.open(fresh, 'c', await keyring.seal(fresh, 'c', 'new'))).toBe('new');
      }
    };
    const working = [work(process, 0), work(other, 1), work(other, 2)];
    const rotation = await process.rotations.begin(null, by);
    await rewrapAll(process, rotation);
    ending.abort();
    await Promise.all(working);
    await other.keys.refresh();
    await carryOut(process, rotation);
    const after = await startedIn();
    for (const [subject, value] of values)
      expect(await after.keyring.open(subject, 'c', value)).toBe(shredded.has(subject) ? null : subject);
  });

  it('replaces the key in master.key, and every replica does so in its own folder', async () => {
    const process = await startedIn();
    const first = await readFile(join(folder, 'master.key'), 'utf8');
    const elsewhere = await mkdtemp(join(folder, 'other-'));
    await writeFile(join(elsewhere, 'master.key'), first, { mode: 0o600 });
    const other = await startedIn(elsewhere);
    const values = await sealed(other, 2);
    const rotation = await process.rotations.begin(null, by);
    const made = await readFile(join(folder, 'master.key'), 'utf8');
    expect(made).not.toBe(first);
    await other.keys.refresh();
    expect(await readFile(join(elsewhere, 'master.key'), 'utf8')).toBe(made);
    for (const dataDir of [folder, elsewhere])
      expect((await readdir(dataDir)).filter((name) => name.startsWith('master.key'))).toEqual(['master.key']);
    await carryOut(process, rotation);
    for (const dataDir of [folder, elsewhere]) await expectReadable(await startedIn(dataDir), values);
  });

  it('finds a key that was on disk before the rotation began, after a crash right after the beginning', async () => {
    const oldKey = await loadMasterKey({ masterKey: null, dataDir: folder }, () => undefined);
    const values = await sealed(await startedIn(), 2);
    const newKey = randomBytes(32);
    await new MasterKeyFile(folder).prepare(newKey);
    await (await startedWith(oldKey)).rotations.begin(newKey, by);
    await database.query('delete from master_key_exchange');
    const process = await startedIn();
    await expectReadable(process, values);
    expect((await readFile(join(folder, 'master.key'), 'utf8')).trim()).toBe(newKey.toString('hex'));
  });

  it('is refused while another one is in progress, back to a former key, and before every replica has the current key', async () => {
    const [oldKey, newKey] = [randomBytes(32), randomBytes(32)];
    const process = await startedWith(oldKey);
    await expect(process.rotations.begin(oldKey, by)).rejects.toMatchObject({ code: 'invalid_request' });
    await announce('older release', null);
    await expect(process.rotations.begin(newKey, by)).rejects.toMatchObject({ code: 'invalid_state' });
    await announce('older release', keyIdOf(oldKey));
    const rotation = await process.rotations.begin(newKey, by);
    await expect(process.rotations.begin(randomBytes(32), by)).rejects.toMatchObject({
      code: 'invalid_state',
      facts: { members: { rotation_id: rotation.id } },
    });
    await announce('older release', keyIdOf(newKey));
    await carryOut(process, rotation);
    await expect(process.rotations.begin(oldKey, by)).rejects.toMatchObject({ code: 'invalid_request' });
  });

  it('begins once, however many replicas get the request at the same time', async () => {
    const oldKey = randomBytes(32);
    const processes = await Promise.all(Array.from({ length: 4 }, () => startedWith(oldKey)));
    const begun = await Promise.allSettled(processes.map(({ rotations }) => rotations.begin(randomBytes(32), by)));
    expect(begun.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected', 'rejected', 'rejected']);
  });

  it('rewraps all other keys if the row of one is damaged, and names its subject', async () => {
    const [oldKey, newKey] = [randomBytes(32), randomBytes(32)];
    const process = await startedWith(oldKey);
    const values = await sealed(process, 4);
    const [broken = ''] = values.keys();
    await database.query(`update data_keys set wrapped = '\\x00' where subject = $1`, [broken]);
    const rotation = await process.rotations.begin(newKey, by);
    expect(await rewrapAll(process, rotation)).toEqual([broken]);
    expect(await process.rotations.remaining(rotation)).toMatchObject({ keys: 1 });
    values.delete(broken);
    await expectReadable(process, values);
    await process.keyring.shred(broken);
    await carryOut(process, rotation);
  });

  it('leaves no key in a table that copies of the write-ahead log have under the old key', async () => {
    const [oldKey, newKey] = [randomBytes(32), randomBytes(32)];
    const process = await startedWith(oldKey);
    await process.rotations.begin(newKey, by);
    const tables = await database.query<{ relname: string; relpersistence: string }>(
      `select relname, relpersistence from pg_class where relname in ('master_key_exchange', 'master_key_rotations') order by relname`,
    );
    expect(tables).toEqual([
      { relname: 'master_key_exchange', relpersistence: 'u' },
      { relname: 'master_key_rotations', relpersistence: 'p' },
    ]);
    const stored = JSON.stringify(await database.query('select r.*, e.* from master_key_rotations r, master_key_exchange e'));
    for (const key of [oldKey, newKey]) for (const form of ['hex', 'base64'] as const) expect(stored).not.toContain(key.toString(form));
  });
});
