/**
 * The tables `projections` and `projection_checkpoints`, and the creation and swap of the tables of read models.
 *
 * Owns: these rows and the SQL that changes them. Does not own the rows of read models (`ReadModelTable`) or the decision to rebuild.
 *
 * T1  A checkpoint bears the epoch of the lease under which it was claimed. Writes under an earlier epoch are refused.
 * T2  A table counts as filled only if it was created while the log was empty, or its rows were folded from the whole log.
 * T3  Tables are created, and unused ones dropped, under one advisory lock, so that no replica loses a table that it has just looked up.
 * T4  Readers see either the old table or the new one, never none: a swap is one transaction.
 */
import type pg from 'pg';

import type { Database } from '../../../postgres/database/database.ts';
import { START, type Position } from '../../event-store/event-store.ts';
import { type Projection, tableOf } from '../projection.ts';
import { createStatements, renameStatements } from './projection-sql.ts';
import { LeaseLost } from './read-model-table.ts';

export type ProjectionState = 'running' | 'rebuilding' | 'failed';

export interface ProjectionStatus {
  name: string;
  version: number;
  position: Position;
  status: ProjectionState;
  /** The error that stopped it, with the event's type and position. */
  error: string | null;
  /** T2: The value is false while rows are missing, because the table was created, or created again, when the log had events already. */
  filled: boolean;
  /** The value is true if it stopped at an event that only a newer program can read. */
  outdated: boolean;
}

/** The stored state of a projection when a holder of its lease begins. */
export interface StoredProjection {
  position: Position;
  filled: boolean;
  /** The last rebuild whose rows replaced the old ones. */
  rebuildId: string | null;
}

/** The parts of a projection that exist in the database. */
interface RegistryRow {
  table_name: string | null;
  position: Position | null;
  stands: boolean;
}

function isWhole({ table_name, position, stands }: RegistryRow): boolean {
  return table_name !== null && position !== null && stands;
}

/**
 * T3: The advisory lock for creating tables and dropping unused ones. The event store and migrations use (5040, 1), (5040, 2) and (5040,
 * 10).
 */
export const TABLES_LOCK = 'select pg_advisory_xact_lock(5040, 20)';
/** While the swap waits for running readers, it blocks those that come later. The wait is therefore short, and the swap is retried. */
const SWAP_LOCK_TIMEOUT = `set local lock_timeout = '200ms'`;
/** A stalled process may still hold a lock on the table that it was building. */
const DROP_LOCK_TIMEOUT = `set local lock_timeout = '1s'`;

/** Manages the tables `projections` and `projection_checkpoints`, and creates and swaps the tables of read models. */
export class ProjectionRegistry {
  constructor(private readonly database: Database) {}

  /**
   * Creates what is missing of the projection: its table (empty), its entry, and its checkpoint at the start of the log. It then counts as
   * filled only if the log was empty (`head`) and the table is new. Any replica may call this.
   */
  async ensureTable(projection: Projection, head: () => Promise<Position>): Promise<void> {
    if (isWhole(await this.find(projection, this.database.pool))) return;
    // This is read outside the transaction: transactions that wait for the lock hold the connections that it needs.
    const begun = (await head()) !== START;
    const { name, version, table } = projection;
    const physical = tableOf(projection);
    await this.database.transaction(async (client) => {
      await client.query(TABLES_LOCK);
      const found = await this.find(projection, client);
      if (isWhole(found)) return;
      if (!found.stands) for (const statement of createStatements(table, physical)) await client.query(statement);
      const filled = !begun && !found.stands;
      await client.query(
        `insert into projections as p (name, version, table_name, status, filled) values ($1, $2, $3, $4, $5)
         on conflict (name, version) do update set status = excluded.status, error = null, filled = excluded.filled, outdated = false`,
        [name, version, physical, filled ? 'running' : 'rebuilding', filled],
      );
      await client.query(
        `insert into projection_checkpoints as c (table_name, position) values ($1, $2)
         on conflict (table_name) do update set position = excluded.position`,
        [physical, START],
      );
    });
  }

  private async find(projection: Projection, asker: Pick<pg.ClientBase, 'query'>): Promise<RegistryRow> {
    const { name, version } = projection;
    const physical = tableOf(projection);
    const { rows } = await asker.query<RegistryRow>(
      `select p.table_name, c.position, to_regclass($3) is not null as stands
         from (select $1::text as name, $2::int as version) one left join projections p using (name, version) left join projection_checkpoints c using (table_name)`,
      [name, version, `"${physical}"`],
    );
    return rows[0] as RegistryRow;
  }

  /** T1: Writes the lease's epoch to the checkpoint, so that later writes of earlier holders are refused. Throws `LeaseLost`. */
  async claim(projection: Projection, fencingToken: string): Promise<StoredProjection> {
    const [row] = await this.database.query<StoredProjection & Record<string, unknown>>(
      `update projection_checkpoints c set epoch = $2 from projections p
        where p.table_name = $1 and c.table_name = $1 and c.epoch <= $2 returning c.position, p.filled, p.rebuild_id as "rebuildId"`,
      [tableOf(projection), fencingToken],
    );
    if (row === undefined) throw new LeaseLost(tableOf(projection));
    return row;
  }

  /** Removes the tables that interrupted rebuilds left. A table that a stalled process still holds stays until the next time. */
  async dropLeftovers(projection: Projection): Promise<void> {
    const leftovers = await this.database.query<{ tablename: string }>(
      `select tablename from pg_tables where schemaname = current_schema() and tablename ~ ('^' || $1 || '_b[0-9]+$')`,
      [tableOf(projection)],
    );
    for (const { tablename } of leftovers) await this.drop(tablename).catch(() => undefined);
  }

  /** Removes a table and its checkpoint, if they exist. */
  async drop(physical: string): Promise<void> {
    await this.database.transaction(async (client) => {
      await client.query(DROP_LOCK_TIMEOUT);
      await client.query(`drop table if exists "${physical}"`);
      await client.query('delete from projection_checkpoints where table_name = $1', [physical]);
    });
  }

  /**
   * T4: Replaces the serving table by the built one. Throws `LeaseLost` if another process is the consumer
   * by now, and PostgreSQL's 55P03 if readers did not make way in time; the caller then tries again.
   */
  async swap(projection: Projection, building: string, fencingToken: string, rebuildId: string): Promise<void> {
    const physical = tableOf(projection);
    await this.database.transaction(async (client) => {
      await client.query(SWAP_LOCK_TIMEOUT);
      const { rowCount } = await client.query('select from projection_checkpoints where table_name = $1 and epoch = $2 for update', [
        physical,
        fencingToken,
      ]);
      if (rowCount !== 1) throw new LeaseLost(physical);
      await client.query(`drop table if exists "${physical}"`);
      for (const statement of renameStatements(projection.table, building, physical)) await client.query(statement);
      await client.query('delete from projection_checkpoints where table_name = $1', [physical]);
      await client.query('update projection_checkpoints set table_name = $2 where table_name = $1', [building, physical]);
      await client.query(
        `update projections set status = 'running', error = null, outdated = false, filled = true, rebuild_id = $2, updated_at = now()
          where table_name = $1`,
        [physical, rebuildId],
      );
    });
  }

  /** Marks the projection as filled: its rows are served from now on, though some may be missing. */
  async setFilled(projection: Projection): Promise<void> {
    await this.database.query('update projections set filled = true where table_name = $1', [tableOf(projection)]);
  }

  /** Stores the state if it differs from the stored one, and only if `epoch` is still that of the lease. */
  async setState(
    projection: Projection,
    fencingToken: string,
    state: ProjectionState,
    error: string | null,
    outdated = false,
  ): Promise<void> {
    await this.database.query(
      `update projections p set status = $2, error = $3, outdated = $4, updated_at = now() from projection_checkpoints c
        where p.table_name = $1 and c.table_name = $1 and c.epoch = $5 and (p.status, p.error, p.outdated) is distinct from ($2, $3, $4)`,
      [tableOf(projection), state, error, outdated, fencingToken],
    );
  }

  /** Returns whether another version of the projection is filled. */
  async hasOtherVersion({ name, version }: Projection): Promise<boolean> {
    const rows = await this.database.query('select from projections where name = $1 and version <> $2 and filled', [name, version]);
    return rows.length > 0;
  }

  /** Returns every projection that any replica uses, by name and version. */
  status(): Promise<ProjectionStatus[]> {
    return this.database.query<ProjectionStatus & Record<string, unknown>>(
      `select p.name, p.version, coalesce(c.position, '${START}') as position, p.status, p.error, p.filled, p.outdated
         from projections p left join projection_checkpoints c on c.table_name = p.table_name order by p.name, p.version`,
    );
  }
}
