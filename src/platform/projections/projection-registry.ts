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
}

/** Two-part advisory lock under which tables are made and swapped; the event store and migrations use (5040, 1), (5040, 2), (5040, 10). */
const TABLES_LOCK = 'select pg_advisory_xact_lock(5040, 20)';
/** Longer waits would hold up every reader that queues behind the swap. */
const SWAP_LOCK_TIMEOUT = `set local lock_timeout = '2s'`;

/** The tables `projections` and `projection_checkpoints`, and the making and changing over of read-model tables. */
export class ProjectionRegistry {
  constructor(private readonly database: Database) {}

  /** Makes the projection's table, empty and at the start of the log, where it was never made. Any replica may. */
  async ensureTable({ name, version, table }: Projection): Promise<void> {
    await this.database.transaction(async (client) => {
      await client.query(TABLES_LOCK);
      const { rowCount } = await client.query(
        `insert into projections (name, version, table_name, status) values ($1, $2, $3, 'running') on conflict (name) do nothing`,
        [name, version, table.name],
      );
      if (rowCount === 0) {
        const { rows } = await client.query<{ table_name: string }>('select table_name from projections where name = $1', [name]);
        if (rows[0]?.table_name !== table.name)
          throw new Error(`the projection ${name} wrote the table ${rows[0]?.table_name}: give it a new name together with a new table`);
        return;
      }
      for (const statement of createStatements(table, table.name)) await client.query(statement);
      await client.query('insert into projection_checkpoints (table_name, position) values ($1, $2)', [table.name, START]);
    });
  }

  /** Stamps the lease's epoch on the checkpoint: from here on nothing that an earlier holder still writes is taken. */
  async claim({ name, table }: Projection, epoch: string): Promise<{ version: number; position: Position }> {
    const [row] = await this.database.query<{ version: number; position: Position }>(
      `update projection_checkpoints c set epoch = $2 from projections p
        where p.name = $1 and c.table_name = $3 and c.epoch <= $2 returning p.version, c.position`,
      [name, epoch, table.name],
    );
    if (row === undefined) throw new LeaseLost(name);
    return row;
  }

  /** The table of a rebuild with its checkpoint: the one that a broken-off rebuild left, or a new one. Those of other versions go. */
  async openBuild({ table }: Projection, building: string, epoch: string): Promise<Position> {
    return this.database.transaction(async (client) => {
      await client.query(TABLES_LOCK);
      const { rows } = await client.query<{ table_name: string; position: Position }>(
        `select table_name, position from projection_checkpoints where table_name ~ ('^' || $1 || '_v[0-9]+$')`,
        [table.name],
      );
      for (const { table_name } of rows.filter((row) => row.table_name !== building)) {
        await client.query(`drop table if exists "${table_name}"`);
        await client.query('delete from projection_checkpoints where table_name = $1', [table_name]);
      }
      const found = rows.find((row) => row.table_name === building);
      if (found === undefined) for (const statement of createStatements(table, building)) await client.query(statement);
      await client.query(
        `insert into projection_checkpoints as c (table_name, position, epoch) values ($1, $2, $3)
         on conflict (table_name) do update set epoch = greatest(c.epoch, excluded.epoch)`,
        [building, START, epoch],
      );
      return found?.position ?? START;
    });
  }

  /** Puts the built table in the place of the serving one: readers see the one or the other, and never none. */
  async swap({ name, version, table }: Projection, building: string, epoch: string): Promise<void> {
    await this.database.transaction(async (client) => {
      await client.query(TABLES_LOCK);
      await client.query(SWAP_LOCK_TIMEOUT);
      const { rowCount } = await client.query('select from projection_checkpoints where table_name = $1 and epoch = $2 for update', [
        building,
        epoch,
      ]);
      if (rowCount !== 1) throw new LeaseLost(name);
      await client.query(`drop table if exists "${table.name}"`);
      for (const statement of renameStatements(table, building, table.name)) await client.query(statement);
      await client.query('delete from projection_checkpoints where table_name = $1', [table.name]);
      await client.query('update projection_checkpoints set table_name = $2 where table_name = $1', [building, table.name]);
      await client.query(`update projections set version = $2, status = 'running', error = null, updated_at = now() where name = $1`, [
        name,
        version,
      ]);
    });
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
      `select p.name, p.version, coalesce(c.position, '${START}') as position, p.status, p.error
         from projections p left join projection_checkpoints c on c.table_name = p.table_name order by p.name`,
    );
  }
}
