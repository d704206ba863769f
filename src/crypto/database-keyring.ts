/**
 * The data keys of subjects, in the table `data_keys`, and their destruction.
 *
 * Owns: the rows of data keys. Does not own the unwrapped keys in memory (`KeyCache`), the master keys (`MasterKeys`), the ledger's file
 * (`ShredLedger`), or what is sealed under the keys.
 *
 * K1  A shredded subject never gets a key again: a tombstone row stays, and a line in the ledger shreds the subject again after a restore.
 * K2  An unwrapped key is used without reading the table for as long as `KeyCache` says: for a bounded time, counted from the start of the
 *     read, or until the log tells the end of its subject.
 * K3  If several first uses of a subject race, one row wins and all read it. A key that was just made is never used directly.
 * K4  No key is stored under a master key that is not the current one any more: the lock of the installation's row holds up a rotation.
 * K5  A shred can't reach PostgreSQL's write-ahead log, earlier backups, and freed blocks of the file system: there the key stays, wrapped.
 */
import type { KeyObject } from 'node:crypto';

import type { OnModuleInit } from '@nestjs/common';
import { Logger } from '@nestjs/common';

import { BatchLoader } from '../kernel/async/batch-loader.ts';
import { isDatabaseUnavailable } from '../postgres/database/database-unavailable.ts';
import type { Database } from '../postgres/database/database.ts';
import { Startup } from '../kernel/startup.ts';
import { deriveMacKey, newDataKey, openText, sealText, unwrapDataKey, wrapDataKey } from './envelope.ts';
import { KeyCache, type SubjectKeys } from './key-cache.ts';
import { type FollowedLog, type KeyUse, type Sealed, type SubjectEnds, Keyring } from './keyring.ts';
import { LatelySealed } from './lately-sealed.ts';
import type { MasterKeys } from './master-keys.ts';
import type { ShredLedger } from './shred-ledger.ts';

/** The key version that new values are sealed under. */
const CURRENT_VERSION = 1;
/** The most attempts at keys that a rotation of the master key changes meanwhile. */
const ATTEMPTS_MAX = 5;

interface KeyRow {
  subject: string;
  version: number;
  /** The id of the master key that wraps the key. */
  kek_id: string;
  /** The key under the master key; null in a tombstone. */
  wrapped: Buffer | null;
}

/** A value can't be sealed any more: the subject's keys were destroyed. */
export class SubjectShredded extends Error {
  constructor(subject: string) {
    super(`the keys of ${subject} were destroyed`);
    this.name = 'SubjectShredded';
  }
}

/**
 * Keeps keys in the table `data_keys`. Text is UTF-8: a lone surrogate is returned as U+FFFD. A shred leaves a tombstone row, so that no
 * key is made for the subject again, and a line in the ledger, so that no older copy of the database brings the key back. It can't reach
 * PostgreSQL's write-ahead log, earlier backups, and freed blocks of the file system: there the data key stays, wrapped.
 */
export class DatabaseKeyring extends Keyring implements OnModuleInit {
  private readonly logger = new Logger('Keyring');
  private readonly cache = new KeyCache();
  private readonly lately = new LatelySealed();
  private readonly reads = new BatchLoader((subjects: string[]) => this.rowsOf(subjects));
  private vacuuming: Promise<void> | null = null;
  private vacuumAgain = false;

  constructor(
    private readonly database: Database,
    private readonly masterKeys: MasterKeys,
    private readonly ledger: ShredLedger,
    private readonly startup = new Startup(),
  ) {
    super();
  }

  onModuleInit(): Promise<void> {
    return this.startup.until('database', isDatabaseUnavailable, async () => {
      await this.masterKeys.verify();
      await this.repeatShreds();
    });
  }

  /** Destroys all keys in the ledger again: a database that was restored to an older state may hold them. */
  private async repeatShreds(): Promise<void> {
    let again = 0;
    for await (const subjects of this.ledger.subjects()) {
      const { rowCount } = await this.database.pool.query(
        'update data_keys set wrapped = null, shredded_at = now() where subject = any($1) and wrapped is not null',
        [subjects],
      );
      again += rowCount ?? 0;
    }
    if (again === 0) return;
    await this.vacuum();
    this.logger.warn(
      `The database held ${again} keys that had been destroyed before: it was put back to an older state. They are destroyed again.`,
    );
  }

  override async seal(subject: string, context: string, plain: string, use: KeyUse = {}): Promise<Sealed> {
    const key = await this.currentKey(subject, use.endIsLogged);
    const sealed = sealText(key, { subject, context, version: CURRENT_VERSION }, plain);
    if (use.isReadNext === true) this.lately.add(subject, context, sealed, plain);
    return sealed;
  }

  override async open(subject: string, context: string, sealed: Sealed, use: KeyUse = {}): Promise<string | null> {
    const known = await this.keysOf(subject, use.endIsLogged);
    // Another replica may have made the key since the keys were read.
    const keys = known.shredded || known.byVersion.has(sealed.key) ? known : await this.cache.remember(subject, this.readKeys(subject));
    if (keys.shredded) return null;
    const key = this.keyAt(keys, subject, sealed.key);
    const handedOver = use.isReadNext === true ? this.lately.consume(subject, context, sealed) : null;
    return handedOver ?? openText(key, { subject, context }, sealed);
  }

  override async macKey(subject: string, purpose: string): Promise<KeyObject> {
    return deriveMacKey(await this.currentKey(subject), subject, purpose);
  }

  override rememberUntilEnded(log: FollowedLog): SubjectEnds {
    return this.cache.follow(log);
  }

  override async shred(subject: string): Promise<void> {
    await this.database.pool.query(
      `with older as (update data_keys set wrapped = null, shredded_at = coalesce(shredded_at, now()) where subject = $1 and version <> $2)
       insert into data_keys as k (subject, version, kek_id, wrapped, shredded_at) values ($1, $2, $3, null, now())
       on conflict (subject, version) do update set wrapped = null, shredded_at = coalesce(k.shredded_at, excluded.shredded_at)`,
      [subject, CURRENT_VERSION, this.masterKeys.current.id],
    );
    this.cache.delete(subject);
    await this.ledger.add([subject]);
    await this.vacuum();
  }

  /** Returns the key for new values, which is made if there is none. */
  private async currentKey(subject: string, endIsLogged?: boolean): Promise<KeyObject> {
    const known = await this.keysOf(subject, endIsLogged);
    const keys = known.shredded || known.byVersion.size > 0 ? known : await this.makeKey(subject);
    if (keys.shredded) throw new SubjectShredded(subject);
    return this.keyAt(keys, subject, CURRENT_VERSION);
  }

  private keyAt(keys: SubjectKeys, subject: string, version: number): KeyObject {
    const key = keys.byVersion.get(version);
    if (key === undefined) throw new Error(`there is no data key ${version} of ${subject}`);
    return key;
  }

  private keysOf(subject: string, endIsLogged = false): Promise<SubjectKeys> {
    return this.cache.find(subject, endIsLogged) ?? this.cache.remember(subject, this.readKeys(subject));
  }

  /** Reads the keys again if a rotation replaced the master key that wraps one of them. */
  private async readKeys(subject: string): Promise<SubjectKeys> {
    for (let attempt = 1; ; attempt += 1) {
      const rows = (await this.reads.load(subject)) ?? [];
      const keys: SubjectKeys = { byVersion: new Map(), shredded: rows.some((row) => row.wrapped === null) };
      if (keys.shredded) return keys;
      if (rows.every(({ kek_id }) => this.masterKeys.has(kek_id)) || attempt === ATTEMPTS_MAX) {
        for (const { version, kek_id, wrapped } of rows)
          if (wrapped !== null) keys.byVersion.set(version, unwrapDataKey(this.masterKeys.of(kek_id), subject, version, wrapped));
        return keys;
      }
      await this.masterKeys.refresh();
    }
  }

  private async rowsOf(subjects: string[]): Promise<Map<string, KeyRow[]>> {
    const { rows } = await this.database.pool.query<KeyRow>(
      'select subject, version, kek_id, wrapped from data_keys where subject = any($1::text[])',
      [subjects],
    );
    const bySubject = new Map<string, KeyRow[]>();
    for (const row of rows) bySubject.set(row.subject, [...(bySubject.get(row.subject) ?? []), row]);
    return bySubject;
  }

  /**
   * Makes the subject's key. If several first seals race, one row wins and all read it; the key just made is never used directly. No key is
   * stored under a master key that is not the current one any more: the lock of the installation's row holds up a rotation.
   */
  private async makeKey(subject: string): Promise<SubjectKeys> {
    for (let attempt = 1; ; attempt += 1) {
      const { id, key } = this.masterKeys.current;
      await this.database.pool.query(
        `insert into data_keys (subject, version, kek_id, wrapped)
         select $1, $2, $3, $4 from installation where fact = 'master_key_id' and value = $3 for share
         on conflict (subject, version) do nothing`,
        [subject, CURRENT_VERSION, id, wrapDataKey(key, subject, CURRENT_VERSION, newDataKey())],
      );
      const keys = await this.cache.remember(subject, this.readKeys(subject));
      if (keys.shredded || keys.byVersion.size > 0) return keys;
      if (attempt === ATTEMPTS_MAX) throw new Error(`no data key could be made for ${subject}`);
      await this.masterKeys.refresh();
    }
  }

  /**
   * Removes the old row version that holds the wrapped key now, not at a later autovacuum. Shreds that arrive meanwhile share one further
   * vacuum.
   */
  private vacuum(): Promise<void> {
    if (this.vacuuming !== null) {
      this.vacuumAgain = true;
      return this.vacuuming;
    }
    this.vacuuming = this.vacuumTable().finally(() => (this.vacuuming = null));
    return this.vacuuming;
  }

  private async vacuumTable(): Promise<void> {
    do {
      this.vacuumAgain = false;
      try {
        await this.database.pool.query('vacuum (skip_locked) data_keys');
      } catch (error) {
        // The key is destroyed in any case; autovacuum removes the old row version later.
        this.logger.warn(`data_keys could not be vacuumed after a shred: ${(error as Error).message}`);
      }
    } while (this.vacuumAgain);
  }
}
