import { Injectable } from '@nestjs/common';

import { Database } from '../database/database.ts';
import { EventStore, type Position } from '../event-store/event-store.ts';
import type { Row } from './fold.ts';
import { type Projection, tableOf } from './projection.ts';
import { loadStatement } from './projection-sql.ts';
import { Replay } from './replay.ts';

/** PostgreSQL's code for a table that does not exist. */
const UNDEFINED_TABLE = '42P01';

export interface LatestRow<Columns> {
  /** Undefined where the stream's events leave no such row. */
  row: Columns | undefined;
  /** Of the last event that was folded here; null where the read model held them all. */
  position: Position | null;
}

/** Answers a row as its stream says it is now, however far the read model is behind: a write is answered with it. */
@Injectable()
export class LatestRows {
  constructor(
    private readonly database: Database,
    private readonly store: EventStore,
  ) {}

  /**
   * The stream must be the only one that touches the row. Where the table has a column `revision`, which then tells the stream's revision up to which
   * the row goes, only the events after it are read; otherwise all events of the stream. Throws `EventStoreUnavailable`.
   */
  async find<Columns extends object>(projection: Projection<Columns>, stream: string, key: string): Promise<LatestRow<Columns>> {
    const replay = new Replay(projection);
    const standing = 'revision' in projection.table.columns ? await this.standing(projection as unknown as Projection, key) : undefined;
    if (standing !== undefined) replay.put(key, standing);
    let position: Position | null = null;
    for await (const event of this.store.readStream(stream, { from: ((standing?.revision as number | undefined) ?? -1) + 1 })) {
      replay.take(event);
      position = event.position;
    }
    return { row: replay.get(key), position };
  }

  private async standing(projection: Projection, key: string): Promise<Row | undefined> {
    try {
      const [found] = await this.database.query<{ row: Row }>(loadStatement(projection.table, tableOf(projection)), [[key]]);
      return found?.row;
    } catch (error) {
      // The read model is being made; the stream holds all that it will show.
      if ((error as { code?: string }).code === UNDEFINED_TABLE) return undefined;
      throw error;
    }
  }
}
