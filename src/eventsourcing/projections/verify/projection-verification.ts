import { randomBytes } from 'node:crypto';

import type { Position } from '../../event-store/event-store.ts';
import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import { type Projection, tableOf } from '../projection.ts';
import { type RebuildParts, writeRows } from '../rebuild/projection-rebuild.ts';
import { createBareStatement, differenceStatement } from '../tables/projection-sql.ts';

const DIFFERENCES_MAX = 100;

export interface Difference {
  /** The row's key. */
  key: string;
  /** `missing`: the row is not in the serving table; `unexpected`: it is only there; `different`: its values differ. */
  kind: 'missing' | 'unexpected' | 'different';
  /** The names of the columns that differ, never their values. */
  columns: string[];
}

export interface Comparison {
  equal: boolean;
  /** The position at which the two were compared. */
  position: Position;
  /** The number of rows in the serving table. */
  rows: number;
  /** The first 100 differences. */
  differences: Difference[];
}

/**
 * Copies the serving rows as of one position, folds the log up to there, and compares the two. Everything is in temporary tables of one
 * connection, so nothing is left behind, however it ends.
 */
export function compareWithLog(parts: RebuildParts, projection: Projection): Promise<Comparison> {
  return parts.comparisons.run(() => compare(parts, projection));
}

async function compare(parts: RebuildParts, projection: Projection): Promise<Comparison> {
  const client = await parts.pool().connect();
  const { table } = projection;
  const suffix = randomBytes(4).toString('hex');
  const [live, fresh] = [`live_${suffix}`, `fresh_${suffix}`];
  try {
    // One statement writes rows and checkpoint, so one snapshot has them as of the same position.
    await client.query('begin isolation level repeatable read');
    const { rows: found } = await client.query<{ filled: boolean; position: Position }>(
      `select p.filled, c.position from projections p join projection_checkpoints c using (table_name) where p.table_name = $1`,
      [tableOf(projection)],
    );
    const standing = found[0];
    if (standing === undefined || !standing.filled)
      throw new ProblemError('invalid_state', `The read model ${projection.name} is being rebuilt; compare it when that is done.`);
    await client.query(`create temp table "${live}" as select * from "${tableOf(projection)}"`);
    await client.query('commit');
    await client.query(createBareStatement(table, fresh, 'temp table'));
    const { signal } = new AbortController();
    await parts.passes.fold({
      projection,
      end: standing.position,
      signal,
      onBegin: () => Promise.resolve(),
      onProgress: () => Promise.resolve(),
      add: (text) => writeRows(client, projection, fresh, [text], signal),
      write: (fold) => writeRows(client, projection, fresh, fold.text(), signal),
    });
    const { rows: differences } = await client.query<Difference & Record<string, unknown>>(differenceStatement(table, live, fresh), [
      DIFFERENCES_MAX,
    ]);
    const { rows: counted } = await client.query<{ count: number }>(`select count(*)::float8 as count from "${live}"`);
    return { equal: differences.length === 0, position: standing.position, rows: counted[0]?.count ?? 0, differences };
  } finally {
    // The temporary tables are dropped with the connection.
    client.release(true);
  }
}
