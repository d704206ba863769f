import type pg from 'pg';

import type { Database } from '../database/database.ts';
import { START, type Position } from '../event-store/event-store.ts';
import type { Projection } from './projection.ts';
import { createStatements, renameStatements } from './projection-sql.ts';
import { LeaseLost } from './read-model-table.ts';

export type ProjectionState = 'running' | 'rebuilding' | 'failed';

export interface ProjectionStatus {
  name: string;
  version: number;
  position: Position;
  status: ProjectionState;
  /** What stopped it, with the event's type and position. */
  error: string | null;
  /** False where its rows are still missing: it was made, or made again, after the log had begun. */
  filled: boolean;
}

/** What is known of a projection when its consumer begins. */
export interface Claimed {
  version: number;
  position: Position;
  filled: boolean;
  /** The last rebuild whose rows took their place. */
  rebuildId: string | null;
}

/** What stands of a projection. */
interface Found {
  table_name: string | null;
  position: Position | null;
  stands: boolean;
}

function isWhole({ table_name, position, stands }: Found): boolean {
  return table_name !== null && position !== null && stands;
}

/** Two-part advisory lock under which tables are made and swapped; the event store and migrations use (5040, 1), (5040, 2), (5040, 10). */
const TABLES_LOCK = 'select pg_advisory_xact_lock(5040, 20)';
/** A wait for readers under way holds up those who come after; so it is short, and tried again. */
const SWAP_LOCK_TIMEOUT = `set local lock_timeout = '200ms'`;
/** A stalled process may still hold the table that it was building. */
const DROP_LOCK_TIMEOUT = `set local lock_timeout = '1s'`;

/** The tables `projections` and `projection_checkpoints`, and the making and changing over of read-model tables. */
export class ProjectionRegistry {
  constructor(private readonly database: Database) {}

  /**
   * Makes what of the projection is not there: its table, empty, its entry, its checkpoint at the start of the log. Where the log has begun
   * (`head`), it then counts as not filled. Any replica may.
   */
  async ensureTable(projection: Projection, head: () => Promise<Position>): Promise<void> {
    if (isWhole(await this.find(projection, this.database.pool))) return;
    // Not inside the transaction: those who wait for the lock hold the connections that this would need.
    const begun = (await head()) !== START;
    const { name, version, table } = projection;
    await this.database.transaction(async (client) => {
      await client.query(TABLES_LOCK);
      const found = await this.find(projection, client);
      if (isWhole(found)) return;
      if (!found.stands) for (const statement of createStatements(table, table.name)) await client.query(statement);
      const filled = !begun && !found.stands;
      await client.query(
        `insert into projections as p (name, version, table_name, status, filled) values ($1, $2, $3, $4, $5)
         on conflict (name) do update set version = excluded.version, status = excluded.status, error = null, filled = excluded.filled`,
        [name, version, table.name, filled ? 'running' : 'rebuilding', filled],
      );
      await client.query(
        `insert into projection_checkpoints as c (table_name, position) values ($1, $2)
         on conflict (table_name) do update set position = excluded.position`,
        [table.name, START],
      );
    });
  }

  private async find({ name, table }: Projection, asker: Pick<pg.ClientBase, 'query'>): Promise<Found> {
    const { rows } = await asker.query<Found>(
      `select p.table_name, c.position, to_regclass($2) is not null as stands
         from (select $1::text as name) one left join projections p using (name) left join projection_checkpoints c using (table_name)`,
      [name, `"${table.name}"`],
    );
    const found = rows[0] as Found;
    if (found.table_name !== null && found.table_name !== table.name)
      throw new Error(`the projection ${name} wrote the table ${found.table_name}: give it a new name together with a new table`);
    return found;
  }

  /** Stamps the lease's epoch on the checkpoint: from here on nothing that an earlier holder still writes is taken. */
  async claim({ name, table }: Projection, epoch: string): Promise<Claimed> {
    const [row] = await this.database.query<Claimed & Record<string, unknown>>(
      `update projection_checkpoints c set epoch = $2 from projections p
        where p.name = $1 and c.table_name = $3 and c.epoch <= $2 returning p.version, c.position, p.filled, p.rebuild_id as "rebuildId"`,
      [name, epoch, table.name],
    );
    if (row === undefined) throw new LeaseLost(name);
    return row;
  }

  /** Removes what rebuilds of the table left that were broken off. What a stalled process still holds stays until the next time. */
  async dropLeftovers({ table }: Projection): Promise<void> {
    const leftovers = await this.database.query<{ tablename: string }>(
      `select tablename from pg_tables where schemaname = current_schema() and tablename ~ ('^' || $1 || '_[bv][0-9]+$')`,
      [table.name],
    );
    for (const { tablename } of leftovers) await this.drop(tablename).catch(() => undefined);
  }

  /** Removes a table with its checkpoint, where they stand. */
  async drop(physical: string): Promise<void> {
    await this.database.transaction(async (client) => {
      await client.query(DROP_LOCK_TIMEOUT);
      await client.query(`drop table if exists "${physical}"`);
      await client.query('delete from projection_checkpoints where table_name = $1', [physical]);
    });
  }

  /**
   * Puts the built table in the place of the serving one: readers see the one or the other, and never none. Throws `LeaseLost` where another
   * process consumes by now, and PostgreSQL's 55P03 where readers did not make way in time: to be tried again.
   */
  async swap({ name, version, table }: Projection, building: string, epoch: string, rebuildId: string): Promise<void> {
    await this.database.transaction(async (client) => {
      await client.query(SWAP_LOCK_TIMEOUT);
      const { rowCount } = await client.query('select from projection_checkpoints where table_name = $1 and epoch = $2 for update', [
        table.name,
        epoch,
      ]);
      if (rowCount !== 1) throw new LeaseLost(name);
      await client.query(`drop table if exists "${table.name}"`);
      for (const statement of renameStatements(table, building, table.name)) await client.query(statement);
      await client.query('delete from projection_checkpoints where table_name = $1', [table.name]);
      await client.query('update projection_checkpoints set table_name = $2 where table_name = $1', [building, table.name]);
      await client.query(
        `update projections set version = $2, status = 'running', error = null, filled = true, rebuild_id = $3, updated_at = now() where name = $1`,
        [name, version, rebuildId],
      );
    });
  }

  /** From here on its rows are shown, though they may not be all. */
  async setFilled({ name }: Projection): Promise<void> {
    await this.database.query('update projections set filled = true where name = $1', [name]);
  }

  /** Written only where it changes something, and only by the holder of the lease. */
  async setState({ name, table }: Projection, epoch: string, state: ProjectionState, error: string | null): Promise<void> {
    await this.database.query(
      `update projections p set status = $2, error = $3, updated_at = now() from projection_checkpoints c
        where p.name = $1 and c.table_name = $4 and c.epoch = $5 and (p.status, p.error) is distinct from ($2, $3)`,
      [name, state, error, table.name, epoch],
    );
  }

  /** Every projection that was ever registered, by name. */
  status(): Promise<ProjectionStatus[]> {
    return this.database.query<ProjectionStatus & Record<string, unknown>>(
      `select p.name, p.version, coalesce(c.position, '${START}') as position, p.status, p.error, p.filled
         from projections p left join projection_checkpoints c on c.table_name = p.table_name order by p.name`,
    );
  }
}
