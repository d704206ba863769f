/**
 * The steps of a rotation of the master key while the service runs.
 *
 * Owns: the tables `master_key_rotations` and `master_key_exchange`, and the data keys' wrapping during a rotation. Does not own the keys
 * in memory and in the key file (`MasterKeys`) or the order of steps (the rotation's saga).
 *
 * M1  Once a rotation has begun, no data key is stored under the old master key: each writer of one shares the lock of the row that names
 *     the current key.
 * M2  The key file contains the new key before anything in the database depends on it.
 * M3  The old key is removed only once no data key and no living replica needs it.
 * M4  One rotation runs at a time, and a key is never reused: an old copy of the database would open with it again.
 * M5  Each step can be repeated, and a late step of a suspended process changes nothing. A key that is shredded meanwhile stays shredded.
 */
import { randomBytes } from 'node:crypto';

import { Injectable, Logger } from '@nestjs/common';
import type pg from 'pg';

import type { CommandContext } from '../kernel/context/command-context.ts';
import { Database } from '../postgres/database/database.ts';
import { ProblemError } from '../kernel/errors/problem-error.ts';
import { newId } from '../kernel/ids.ts';
import { keyIdOf, unwrapDataKey, wrapDataKey, wrapMasterKey } from './envelope.ts';
import { MasterKeys } from './master-keys.ts';

/** The number of blocks of the table whose data keys are rewrapped by one statement: about 900 keys. */
const BATCH_BLOCKS = 16;
/** A replica counts as alive for this long after it was last seen, in seconds: perhaps only its session broke, and it will reconnect. */
const SEEN_SECONDS = 20;

/** M3: The number of living replicas whose announced master key is not the given one. */
const BEHIND = `
  select count(*)::int as replicas from program_replicas r
   where r.master_key_id is distinct from $1
     and (r.seen_at > clock_timestamp() - interval '${SEEN_SECONDS} seconds'
          or exists (select from pg_stat_activity a where a.application_name = r.owner))`;

const LEFT = 'select count(*)::int as keys from data_keys where kek_id = $1 and wrapped is not null';

/** The caller who requested a rotation. */
export type RotationRequester = Pick<CommandContext, 'actor' | 'accountId' | 'requestId' | 'causationId' | 'ip'>;

export interface MasterKeyRotation {
  id: string;
  oldKeyId: string;
  newKeyId: string;
  requestedBy: RotationRequester;
  begunAt: Date;
  /** The time since which nothing in the database can be opened with the old key; null until then. */
  forgottenAt: Date | null;
  /** The time at which the end was recorded; null until then. */
  finishedAt: Date | null;
}

interface KeyRow {
  /** The row's physical location in the table (`ctid`). */
  tid: string;
  subject: string;
  version: number;
  wrapped: Buffer;
}

export interface RewrappedBatch {
  /** The number of data keys that were still wrapped by the old master key. */
  found: number;
  /** The subjects whose keys the old master key does not open: their rows are damaged. */
  damaged: string[];
}

/** Executes the steps of rotations: begin, share the new key, rewrap every data key, remove the old key, finish. See M1 to M5. */
@Injectable()
export class MasterKeyRotations {
  private readonly logger = new Logger('Keyring');

  constructor(
    private readonly database: Database,
    private readonly masterKeys: MasterKeys,
  ) {}

  /**
   * Makes the given key, or a new one, the current master key, and returns the rotation. Throws `invalid_request` if the key can't be used,
   * and `invalid_state` if a rotation is in progress or a replica lacks the current key.
   */
  async begin(given: Buffer | null, requestedBy: RotationRequester): Promise<MasterKeyRotation> {
    await this.masterKeys.refresh();
    const { file, current } = this.masterKeys;
    const key = given ?? randomBytes(32);
    // M2
    await file?.prepare(key);
    try {
      const id = await this.database.transaction((client) => insertRotation(client, current, key, requestedBy));
      await this.masterKeys.refresh();
      return (await this.find(id)) as MasterKeyRotation;
    } catch (error) {
      // After any other error the rotation may have begun nevertheless.
      if (error instanceof ProblemError) await file?.discard(key);
      throw error;
    }
  }

  find(id: string): Promise<MasterKeyRotation | null> {
    return this.one('where rotation_id = $1', [id]);
  }

  /** Returns the last rotation that was begun, or null. */
  latest(): Promise<MasterKeyRotation | null> {
    return this.one('order by begun_at desc, rotation_id desc limit 1', []);
  }

  async unfinishedIds(): Promise<string[]> {
    const rows = await this.database.query<{ rotation_id: string }>(
      'select rotation_id from master_key_rotations where finished_at is null',
    );
    return rows.map(({ rotation_id }) => rotation_id);
  }

  /** Returns the remaining work: the number of keys that the old master key wraps, and of replicas that lack the new one. */
  async remaining({ oldKeyId, newKeyId }: MasterKeyRotation): Promise<{ keys: number; replicas: number }> {
    const [keys] = await this.database.query<{ keys: number }>(LEFT, [oldKeyId]);
    const [behind] = await this.database.query<{ replicas: number }>(BEHIND, [newKeyId]);
    return { keys: keys?.keys ?? 0, replicas: behind?.replicas ?? 0 };
  }

  /**
   * Makes sure that the other replicas can read the new key: a crash of PostgreSQL empties the table from which they do. Throws
   * `UnknownMasterKey` if this process does not have both keys and can't read them.
   */
  async share({ id, oldKeyId, newKeyId }: MasterKeyRotation): Promise<void> {
    await this.masterKeys.refresh();
    const wrapped = wrapMasterKey(this.masterKeys.of(oldKeyId), id, this.masterKeys.of(newKeyId));
    await this.database.query(
      `insert into master_key_exchange (rotation_id, new_wrapped)
       select rotation_id, $2 from master_key_rotations where rotation_id = $1 and forgotten_at is null for share
       on conflict do nothing`,
      [id, wrapped],
    );
  }

  /**
   * Returns the first block of each batch of a pass over the table. Rows are read by their location in it, which needs neither an index nor
   * a sort. M1: Rows that are written meanwhile are wrapped by the new key.
   */
  async batches(): Promise<number[]> {
    const [table] = await this.database.query<{ blocks: number }>(
      `select (pg_relation_size('data_keys') / current_setting('block_size')::int)::int as blocks`,
    );
    return Array.from({ length: Math.ceil((table?.blocks ?? 0) / BATCH_BLOCKS) }, (_, n) => n * BATCH_BLOCKS);
  }

  /** Wraps the data keys of the batch by the new master key. A key that is shredded meanwhile stays shredded. */
  async rewrap({ oldKeyId, newKeyId }: MasterKeyRotation, fromBlock: number): Promise<RewrappedBatch> {
    const rows = await this.database.query<KeyRow & Record<string, unknown>>(
      `select ctid::text as tid, subject, version, wrapped from data_keys
        where ctid >= $2::tid and ctid < $3::tid and kek_id = $1 and wrapped is not null`,
      [oldKeyId, `(${fromBlock},0)`, `(${fromBlock + BATCH_BLOCKS},0)`],
    );
    const [older, newer] = [this.masterKeys.of(oldKeyId), this.masterKeys.of(newKeyId)];
    const damaged: string[] = [];
    const ready = rows.flatMap(({ tid, subject, version, wrapped }) => {
      try {
        const dataKey = unwrapDataKey(older, subject, version, wrapped).export();
        return [{ tid, subject, wrapped, anew: wrapDataKey(newer, subject, version, dataKey) }];
      } catch {
        damaged.push(subject);
        return [];
      }
    });
    if (ready.length > 0)
      await this.database.query(
        `update data_keys k set kek_id = $1, wrapped = b.anew
           from unnest($2::tid[], $3::text[], $4::bytea[], $5::bytea[]) b(tid, subject, wrapped, anew)
          where k.ctid = b.tid and k.subject = b.subject and k.wrapped = b.wrapped`,
        [
          newKeyId,
          ready.map(({ tid }) => tid),
          ready.map(({ subject }) => subject),
          ready.map(({ wrapped }) => wrapped),
          ready.map(({ anew }) => anew),
        ],
      );
    return { found: rows.length, damaged };
  }

  /** Removes both encrypted master keys. Returns false if data keys or replicas still need the old one. */
  async removeOldKey(rotation: MasterKeyRotation): Promise<boolean> {
    if (rotation.forgottenAt !== null) return true;
    const { keys, replicas } = await this.remaining(rotation);
    if (keys > 0 || replicas > 0) return false;
    await this.database.transaction(async (client) => {
      await client.query(
        'update master_key_rotations set old_wrapped = null, forgotten_at = now() where rotation_id = $1 and forgotten_at is null',
        [rotation.id],
      );
      await client.query('delete from master_key_exchange where rotation_id = $1', [rotation.id]);
    });
    try {
      await this.database.query('vacuum (skip_locked) master_key_exchange');
    } catch (error) {
      this.logger.warn(`master_key_exchange could not be vacuumed after a rotation: ${(error as Error).message}`);
    }
    return true;
  }

  /** Marks the rotation as finished. Another one may begin from then on. */
  async finish({ id }: MasterKeyRotation): Promise<void> {
    await this.database.query('update master_key_rotations set finished_at = now() where rotation_id = $1 and finished_at is null', [id]);
    await this.masterKeys.refresh();
  }

  private async one(where: string, values: unknown[]): Promise<MasterKeyRotation | null> {
    const [rotation] = await this.database.query<MasterKeyRotation & Record<string, unknown>>(
      `select rotation_id as id, old_key_id as "oldKeyId", new_key_id as "newKeyId", requested_by as "requestedBy", begun_at as "begunAt",
              forgotten_at as "forgottenAt", finished_at as "finishedAt"
         from master_key_rotations ${where}`,
      values,
    );
    return rotation ?? null;
  }
}

/** Begins the rotation in the transaction, and returns its id. */
async function insertRotation(
  client: pg.PoolClient,
  current: { id: string; key: Buffer },
  key: Buffer,
  by: RotationRequester,
): Promise<string> {
  const newKeyId = keyIdOf(key);
  await refuseUsedKey(client, current.id, newKeyId);
  // M1
  const { rowCount } = await client.query(`update installation set value = $2 where fact = 'master_key_id' and value = $1`, [
    current.id,
    newKeyId,
  ]);
  const [unfinished] = (
    await client.query<{ rotation_id: string }>('select rotation_id from master_key_rotations where finished_at is null')
  ).rows;
  if (rowCount !== 1 || unfinished !== undefined)
    throw new ProblemError('invalid_state', 'A rotation of the master key is in progress. Wait until it has finished.', {
      members: { rotation_id: unfinished?.rotation_id ?? null },
    });
  const { rows } = await client.query<{ replicas: number }>(BEHIND, [current.id]);
  if ((rows[0]?.replicas ?? 0) > 0)
    throw new ProblemError(
      'invalid_state',
      'A replica of the service has not announced that it has the current master key. It may be starting, or it may be of an older release, which has to be replaced first.',
    );
  const id = newId();
  await client.query(
    'insert into master_key_rotations (rotation_id, old_key_id, new_key_id, old_wrapped, requested_by) values ($1, $2, $3, $4, $5)',
    [id, current.id, newKeyId, wrapMasterKey(key, id, current.key), JSON.stringify(by)],
  );
  await client.query('insert into master_key_exchange (rotation_id, new_wrapped) values ($1, $2)', [
    id,
    wrapMasterKey(current.key, id, key),
  ]);
  return id;
}

/** M4: Refuses a key that is or was the master key. */
async function refuseUsedKey(client: pg.PoolClient, currentId: string, newKeyId: string): Promise<void> {
  const { rows } = await client.query('select from master_key_rotations where $1 in (old_key_id, new_key_id)', [newKeyId]);
  if (newKeyId !== currentId && rows.length === 0) return;
  const message = 'is, or was before, the master key: give another one';
  throw new ProblemError('invalid_request', `new_master_key: ${message}.`, { errors: [{ field: 'new_master_key', message }] });
}
