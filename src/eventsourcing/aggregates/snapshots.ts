import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { Injectable, Logger } from '@nestjs/common';
import { Database } from '../../postgres/database/database.ts';
import type { Json, SnapshotShape } from '../event-store/event-definition.ts';
import { idOf } from '../event-store/event-store.ts';
import { DerivedIds } from './derived-ids.ts';
import type { StreamState } from './stream-state.ts';

/** The most snapshots that wait to be written. Further ones are skipped, and are due again after later events. */
const WAITING_MAX = 100;
/** The largest state that is written, as JSON, in bytes: a larger one would block the process for too long. */
const STATE_BYTES_MAX = 8 * 1024 * 1024;

type Row = {
  revision: string;
  position: string;
  event_id: string;
  account_id: string | null;
  state: Json;
  created_at: string;
  changed_at: string;
  derived_ids: string;
};

/**
 * Stores states of long streams, so that a load need not apply all events. It is a cache in PostgreSQL, whichever store holds the log, and
 * may be emptied at any time. Callers must check that the event of a snapshot is in the stream.
 */
@Injectable()
export class Snapshots {
  private readonly logger = new Logger('Snapshots');
  private readonly waiting = new Map<string, () => Promise<void>>();
  private writing: Promise<void> | null = null;

  constructor(private readonly database: Database) {
    database.beforeClose(() => this.settle());
  }

  /** Returns the snapshot of the stream by this version of the decider; null if there is none, or it can't be read. */
  async find<S>(stream: string, shape: SnapshotShape<S>): Promise<StreamState<S> | null> {
    try {
      const [row] = await this.database.query<Row>(
        `select revision, position, event_id, account_id, state, created_at, changed_at, derived_ids
           from aggregate_snapshots where stream = $1 and decider = $2 and version = $3`,
        [stream, shape.name, shape.version],
      );
      if (row === undefined) return null;
      const revision = Number(row.revision);
      return {
        state: shape.fromJson === undefined ? (row.state as S) : shape.fromJson(row.state),
        createdAt: row.created_at,
        changedAt: row.changed_at,
        revision,
        position: row.position,
        eventId: row.event_id,
        derivedIds: DerivedIds.parse(row.derived_ids),
        account: row.account_id,
        snapshotAt: revision,
      };
    } catch (error) {
      this.logger.warn(`The snapshot of ${stream} could not be read, so all of its events are read instead: ${(error as Error).message}`);
      return null;
    }
  }

  /** Writes the state in the background: one snapshot at a time, and only the latest of each stream. Never fails. */
  schedule<S>(stream: string, shape: SnapshotShape<S>, state: StreamState<S>): void {
    const key = `${shape.name} ${stream}`;
    if (this.waiting.size >= WAITING_MAX && !this.waiting.has(key)) return;
    this.waiting.set(key, () => this.write(stream, shape, state));
    this.writing ??= this.writeAll();
  }

  /** Removes the subject's snapshots. After the subject's data key is destroyed, no further ones are written. */
  async removeOf(subject: string): Promise<void> {
    await this.database.query('delete from aggregate_snapshots where subject = $1', [subject]);
  }

  /** Resolves when all waiting snapshots are written. */
  async settle(): Promise<void> {
    await this.writing;
  }

  private async writeAll(): Promise<void> {
    for (let [next] = this.waiting; next !== undefined; [next] = this.waiting) {
      const [key, write] = next;
      this.waiting.delete(key);
      // Work of callers that is already queued runs first.
      await yieldToEventLoop();
      await write().catch((error: Error) => this.logger.warn(`A snapshot could not be written: ${error.message}`));
    }
    this.writing = null;
  }

  private async write<S>(stream: string, shape: SnapshotShape<S>, kept: StreamState<S>): Promise<void> {
    const state = JSON.stringify(shape.toJson === undefined ? kept.state : shape.toJson(kept.state));
    if (Buffer.byteLength(state) > STATE_BYTES_MAX) return;
    const subject = shape.subject?.(kept.state, idOf(stream)) ?? null;
    await this.database.query(
      `insert into aggregate_snapshots (stream, decider, version, revision, position, event_id, account_id, subject, state, created_at,
         changed_at, derived_ids)
       select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12
        where not exists (select from data_keys k where k.subject = $8 and k.shredded_at is not null)
       on conflict (stream, decider) do update set version = excluded.version, revision = excluded.revision, position = excluded.position,
         event_id = excluded.event_id, account_id = excluded.account_id, subject = excluded.subject, state = excluded.state,
         created_at = excluded.created_at, changed_at = excluded.changed_at, derived_ids = excluded.derived_ids, taken_at = now()`,
      [
        stream,
        shape.name,
        shape.version,
        kept.revision,
        kept.position,
        kept.eventId,
        kept.account,
        subject,
        state,
        kept.createdAt,
        kept.changedAt,
        kept.derivedIds.toString(),
      ],
    );
  }
}
