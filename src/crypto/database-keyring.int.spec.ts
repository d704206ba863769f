import { randomBytes, randomUUID } from 'node:crypto';
import { appendFile, mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import fc from 'fast-check';

import { freshDatabase, type TestDatabase } from '../../test/support/postgres.ts';
import type { Database } from '../postgres/database/database.ts';
import { openDatabase } from '../postgres/database/open-database.ts';
import { DatabaseKeyring, SubjectShredded } from './database-keyring.ts';
import type { Sealed } from './keyring.ts';
import { MasterKeys } from './master-keys.ts';
import { ShredLedger } from './shred-ledger.ts';

describe('the keyring', () => {
  const masterKey = randomBytes(32);
  let test: TestDatabase;
  let database: Database;
  let keyring: DatabaseKeyring;
  let folder: string;
  let ledger: ShredLedger;
  const keyringOf = (key: Buffer) => new DatabaseKeyring(database, new MasterKeys(database, key, null), ledger);

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'mooring-keys-'));
    ledger = ShredLedger.in(folder);
    test = await freshDatabase();
    database = await openDatabase({ url: test.url, allowUnsafe: true });
    keyring = keyringOf(masterKey);
    await keyring.onModuleInit();
  });

  afterAll(async () => {
    await database.close();
    await test.drop();
    await rm(folder, { recursive: true, force: true });
  });

  it('returns every text unchanged', async () => {
    const subject = randomUUID();
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'binary' }), fc.string({ unit: 'grapheme' }), async (plain, context) => {
        expect(await keyring.open(subject, context, await keyring.seal(subject, context, plain))).toBe(plain);
      }),
      { numRuns: 200 },
    );
  });

  it('seals the same text differently each time', async () => {
    const subject = randomUUID();
    const values = await Promise.all(Array.from({ length: 50 }, () => keyring.seal(subject, 'c', 'same')));
    expect(new Set(values.map((value) => value.iv)).size).toBe(50);
    expect(new Set(values.map((value) => value.ct)).size).toBe(50);
  });

  it('opens a value only in its own context', async () => {
    const subject = randomUUID();
    const other = randomUUID();
    const value = await keyring.seal(subject, 'env/TOKEN', 'secret');
    await keyring.seal(other, 'env/TOKEN', 'another');
    await expect(keyring.open(subject, 'env/OTHER', value)).rejects.toThrow('unable to authenticate');
    await expect(keyring.open(other, 'env/TOKEN', value)).rejects.toThrow('unable to authenticate');
  });

  it('does not confuse two splits of the same text into subject and context', async () => {
    const value = await keyring.seal('a"', 'b', 'secret');
    await keyring.seal('a', 'x', 'other');
    await expect(keyring.open('a', '",b', value)).rejects.toThrow('unable to authenticate');
  });

  it('refuses a value in which a single bit was changed', async () => {
    const subject = randomUUID();
    const value = await keyring.seal(subject, 'c', 'secret');
    const flipped = (text: string, bit: number) => {
      const bytes = Buffer.from(text, 'base64');
      bytes[bit >> 3] = (bytes[bit >> 3] as number) ^ (1 << (bit & 7));
      return bytes.toString('base64');
    };
    const bits = Buffer.from(value.ct, 'base64').length * 8;
    for (let bit = 0; bit < bits; bit += 1)
      await expect(keyring.open(subject, 'c', { ...value, ct: flipped(value.ct, bit) })).rejects.toThrow('unable to authenticate');
    for (let bit = 0; bit < 96; bit += 1)
      await expect(keyring.open(subject, 'c', { ...value, iv: flipped(value.iv, bit) })).rejects.toThrow('unable to authenticate');
    await expect(keyring.open(subject, 'c', { ...value, ct: '' })).rejects.toThrow('malformed');
    await expect(keyring.open(subject, 'c', { ...value, key: 2 })).rejects.toThrow('no data key 2');
  });

  it('creates one key even if many first values are sealed at once, by two replicas', async () => {
    const subject = randomUUID();
    const replica = keyringOf(masterKey);
    const seal = (n: number) => (n % 2 === 0 ? keyring : replica).seal(subject, 'c', `value ${n}`);
    const values = await Promise.all(Array.from({ length: 20 }, (_, n) => seal(n)));
    const fresh = keyringOf(masterKey);
    for (const [n, value] of values.entries()) expect(await fresh.open(subject, 'c', value)).toBe(`value ${n}`);
    expect(await database.query('select from data_keys where subject = $1', [subject])).toHaveLength(1);
  });

  it('finds its keys again after a restart', async () => {
    const subject = randomUUID();
    const value = await keyring.seal(subject, 'c', 'secret');
    const restarted = keyringOf(masterKey);
    await restarted.onModuleInit();
    expect(await restarted.open(subject, 'c', value)).toBe('secret');
  });

  it('returns one MAC key for a subject and purpose, to all replicas that start at once and after a restart', async () => {
    const subject = randomUUID();
    const first = await Promise.all(Array.from({ length: 6 }, () => keyringOf(masterKey).macKey(subject, 'containers')));
    const again = await keyringOf(masterKey).macKey(subject, 'containers');
    for (const key of first) expect(key.equals(again)).toBe(true);
    expect(again.symmetricKeySize).toBe(32);
    expect((await keyring.macKey(subject, 'something else')).equals(again)).toBe(false);
    expect((await keyring.macKey(randomUUID(), 'containers')).equals(again)).toBe(false);
    await keyring.shred(subject);
    await expect(keyring.macKey(subject, 'containers')).rejects.toThrow(SubjectShredded);
  });

  it('opens nothing of a shredded subject, and seals nothing for it any more', async () => {
    const subject = randomUUID();
    const value = await keyring.seal(subject, 'c', 'secret');
    await keyring.shred(subject);
    await keyring.shred(subject);
    expect(await keyring.open(subject, 'c', value)).toBeNull();
    await expect(keyring.seal(subject, 'c', 'again')).rejects.toThrow(SubjectShredded);
    const restarted = keyringOf(masterKey);
    expect(await restarted.open(subject, 'c', value)).toBeNull();
    await expect(restarted.seal(subject, 'c', 'again')).rejects.toThrow(SubjectShredded);
    const rows = await database.query<{ wrapped: Buffer | null; shredded_at: Date }>('select * from data_keys where subject = $1', [
      subject,
    ]);
    expect(rows).toEqual([expect.objectContaining({ wrapped: null, shredded_at: expect.any(Date) })]);
  });

  it('hands over a text that was sealed just now, and neither a changed one nor one whose key is destroyed', async () => {
    const [subject, use] = [randomUUID(), { isReadNext: true }];
    const seal = () => keyring.seal(subject, 'c', 'secret', use);
    const value = await seal();
    expect([await keyring.open(subject, 'c', value, use), await keyring.open(subject, 'c', value, use)]).toEqual(['secret', 'secret']);
    const changed = await seal();
    const ct = Buffer.from(changed.ct, 'base64');
    ct[0] = (ct[0] as number) ^ 1;
    await expect(keyring.open(subject, 'c', { ...changed, ct: ct.toString('base64') }, use)).rejects.toThrow('unable to authenticate');
    await expect(keyring.open(subject, 'c', { ...(await seal()), key: 2 }, use)).rejects.toThrow('no data key 2');
    const last = await seal();
    await keyring.shred(subject);
    expect(await keyring.open(subject, 'c', last, use)).toBeNull();
  });

  it('creates no key for a subject that was shredded before its first value', async () => {
    const subject = randomUUID();
    await Promise.all([keyring.shred(subject), keyring.seal(subject, 'c', 'x').catch(() => undefined)]);
    await keyring.shred(subject);
    await expect(keyring.seal(subject, 'c', 'x')).rejects.toThrow(SubjectShredded);
  });

  it('opens nothing on any replica a second after a shred on one of them', async () => {
    const subject = randomUUID();
    const replica = keyringOf(masterKey);
    const value = await keyring.seal(subject, 'c', 'secret');
    expect(await replica.open(subject, 'c', value)).toBe('secret');
    await keyring.shred(subject);
    const began = performance.now();
    let lastOpenedAt = began;
    for (;;) {
      const asked = performance.now();
      if ((await replica.open(subject, 'c', value)) === null) break;
      lastOpenedAt = asked;
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(lastOpenedAt - began).toBeLessThan(1_000);
  });

  it('removes the row version that held the key', async () => {
    const subject = randomUUID();
    await keyring.seal(subject, 'c', 'secret');
    await keyring.shred(subject);
    const [table] = await database.query<{ owner: string; app: string }>(
      `select tableowner as owner, current_user as app from pg_tables where tablename = 'data_keys'`,
    );
    expect(table?.owner).toBe(table?.app);
    const [vacuumed] = await database.query<{ at: Date | null }>(
      `select pg_stat_get_last_vacuum_time('data_keys'::regclass) as at from pg_stat_clear_snapshot()`,
    );
    expect(vacuumed?.at).toBeInstanceOf(Date);
  });

  it('destroys keys again at its start that a restored older database contains', async () => {
    const [kept, deleted] = [randomUUID(), randomUUID()];
    const values = await Promise.all([kept, deleted].map((subject) => keyring.seal(subject, 'c', 'secret')));
    const [older] = await database.query('select * from data_keys where subject = $1', [deleted]);
    await keyring.shred(deleted);
    await database.query('update data_keys set wrapped = $2, shredded_at = null where subject = $1', [deleted, older?.wrapped]);
    const restarted = keyringOf(masterKey);
    await restarted.onModuleInit();
    expect(await Promise.all(values.map((value, n) => restarted.open([kept, deleted][n] as string, 'c', value)))).toEqual(['secret', null]);
  });

  it('records shredded subjects outside the database, in complete lines, whatever a crash left behind', async () => {
    const [before, after] = [randomUUID(), randomUUID()];
    await keyring.shred(before);
    await appendFile(ledger.file, '{"subject": "cut o');
    await keyring.shred(after);
    const noted: string[] = [];
    for await (const subjects of ledger.subjects()) noted.push(...subjects);
    expect(noted.slice(-2)).toEqual([before, after]);
    expect((await stat(ledger.file)).mode & 0o777).toBe(0o600);
  });

  it('stores no secret in its table', async () => {
    const value: Sealed = await keyring.seal(randomUUID(), 'c', 'canary-7f3a');
    const stored = JSON.stringify(await database.query('select * from data_keys'));
    expect(stored).not.toContain('canary-7f3a');
    expect(JSON.stringify(value)).not.toContain('canary-7f3a');
  });

  it('refuses to start with another master key than the one the data was sealed under', async () => {
    await keyring.seal(randomUUID(), 'c', 'secret');
    const wrong = keyringOf(randomBytes(32));
    await expect(wrong.onModuleInit()).rejects.toThrow('the master key is not the one that this database was used with');
    await expect(keyring.onModuleInit()).resolves.toBeUndefined();
  });
});
