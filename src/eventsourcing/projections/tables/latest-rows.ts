import { Injectable } from '@nestjs/common';

import { Database } from '../../../postgres/database/database.ts';
import { asRead, type ReadRow, type WrittenRow } from '../../../postgres/database/table.ts';
import { idOf, type Position, type StoredEvent } from '../../event-store/event-store.ts';
import type { AnyDecider } from '../../aggregates/stream-state.ts';
import { StreamStates } from '../../aggregates/stream-states.ts';
import type { Row } from './fold.ts';
import { type Projection, type ProjectionTable, tableOf } from '../projection.ts';
import { loadStatement } from './projection-sql.ts';
import { Replay } from './replay.ts';

/** PostgreSQL's code for a table that does not exist. */
const UNDEFINED_TABLE = '42P01';

export interface LatestRow<T extends ProjectionTable> {
  /** The value is undefined if the stream's events leave no such row. */
  row: ReadRow<T> | undefined;
  /** The position of the stream's last event. */
  position: Position;
}

/** The row that one stream's events leave; null if they leave none. */
type RowState = Row | null;

/**
 * Returns a row as its stream defines it now, however far the read model is behind, so that a write can be answered with it. The projection
 * itself folds the row, which is kept in memory as a state of the stream, like those of deciders.
 */
@Injectable()
export class LatestRows {
  private readonly deciders = new Map<string, AnyDecider<RowState>>();

  constructor(
    private readonly database: Database,
    private readonly states: StreamStates,
  ) {}

  /**
   * Returns the newest row of the stream. The stream must be the only one that touches the row, and the row the only one that it touches.
   * If the table has a column `revision` (the stream's revision up to which the row goes), a long stream that is not in memory is read from
   * there on. `upTo` is as for `Aggregates.load`. Throws `EventStoreUnavailable`.
   */
  async find<T extends ProjectionTable>(projection: Projection<T>, stream: string, upTo?: Position): Promise<LatestRow<T>> {
    const { state, position } = await this.states.newest(stream, this.deciderOf(projection), { upTo });
    return { row: state === null ? undefined : asRead(projection.table, state as WrittenRow<T>), position };
  }

  private deciderOf(projection: Projection): AnyDecider<RowState> {
    const known = this.deciders.get(projection.name);
    if (known !== undefined) return known;
    const decider: AnyDecider<RowState> = {
      initialState: () => null,
      decide: () => [],
      evolve: (row: RowState, event: StoredEvent) => {
        const key = projection.keys(event)[0] as string;
        const replay = new Replay(projection);
        if (row !== null) replay.put(key, row);
        replay.take(event);
        return replay.written(key) ?? null;
      },
    };
    if ('revision' in projection.table.columns) decider.standing = (stream) => this.standing(projection, stream);
    this.deciders.set(projection.name, decider);
    return decider;
  }

  private async standing(projection: Projection, stream: string): Promise<{ state: Row; revision: number } | null> {
    try {
      const [found] = await this.database.query<{ row: Row }>(loadStatement(projection.table, tableOf(projection)), [[idOf(stream)]]);
      return found === undefined ? null : { state: found.row, revision: found.row.revision as number };
    } catch (error) {
      // The table does not exist yet, while the stream holds all that the row will show.
      if ((error as { code?: string }).code === UNDEFINED_TABLE) return null;
      throw error;
    }
  }
}
