import type pg from 'pg';
import { EventStoreUnavailable } from '../event-store.ts';

/** The statement was sent, and the connection broke or stalled before the response: it may have been committed. */
export class ResponseLost extends Error {
  constructor(cause: unknown) {
    super('the database did not answer', { cause });
    this.name = 'ResponseLost';
  }
}

/**
 * Runs one statement in a transaction of its own. Throws `EventStoreUnavailable` if nothing was done and a later attempt may succeed,
 * `ResponseLost` if the outcome is unknown, and the database's own error if a retry would fail in the same way.
 */
export async function runOnce<Row extends unknown[]>(
  pool: pg.Pool,
  query: { name: string; text: string; values: unknown[] },
): Promise<Row[]> {
  let client: pg.PoolClient;
  try {
    client = await pool.connect();
  } catch (error) {
    throw new EventStoreUnavailable(error);
  }
  let lost: ResponseLost | undefined;
  try {
    return (await client.query<Row>({ ...query, rowMode: 'array' })).rows;
  } catch (error) {
    if (!isRolledBack(error)) throw (lost = new ResponseLost(error));
    throw isTransient(error) ? new EventStoreUnavailable(error) : error;
  } finally {
    client.release(lost);
  }
}

/** Runs a statement that changes nothing or is idempotent, so that a lost response counts as `EventStoreUnavailable`. */
export async function runIdempotent<Row extends unknown[]>(
  pool: pg.Pool,
  query: { name: string; text: string; values: unknown[] },
): Promise<Row[]> {
  try {
    return await runOnce<Row>(pool, query);
  } catch (error) {
    throw error instanceof ResponseLost ? new EventStoreUnavailable(error.cause) : error;
  }
}

/** Returns whether the transaction was rolled back. Severity ERROR means that it was; FATAL and a broken socket leave it unknown. */
function isRolledBack(error: unknown): boolean {
  return (error as { severity?: string }).severity === 'ERROR';
}

/**
 * Returns whether the error may not recur: deadlock or serialisation failure, read-only standby, insufficient resources, lock or statement
 * timeout, shutdown, system error.
 */
function isTransient(error: unknown): boolean {
  return /^(40...|25006|53...|55P03|57...|58...)$/.test((error as { code?: string }).code ?? '');
}
