import type pg from 'pg';
import { EventStoreUnavailable } from '../event-store.ts';

/** The statement was sent, and the connection broke or fell silent before the answer: it may have been committed. */
export class AnswerLost extends Error {
  constructor(cause: unknown) {
    super('the database did not answer', { cause });
    this.name = 'AnswerLost';
  }
}

/**
 * Runs one statement in a transaction of its own and keeps three failures apart: `EventStoreUnavailable` where nothing was
 * done and a later try may succeed, `AnswerLost` where nobody knows, and the database's own error where a repeat would hear it again.
 */
export async function send<Row extends unknown[]>(pool: pg.Pool, query: { name: string; text: string; values: unknown[] }): Promise<Row[]> {
  let client: pg.PoolClient;
  try {
    client = await pool.connect();
  } catch (error) {
    throw new EventStoreUnavailable(error);
  }
  let lost: AnswerLost | undefined;
  try {
    return (await client.query<Row>({ ...query, rowMode: 'array' })).rows;
  } catch (error) {
    if (!isRolledBack(error)) throw (lost = new AnswerLost(error));
    throw isPassing(error) ? new EventStoreUnavailable(error) : error;
  } finally {
    client.release(lost);
  }
}

/** The same for what changes nothing, or may be repeated at will. */
export async function ask<Row extends unknown[]>(pool: pg.Pool, query: { name: string; text: string; values: unknown[] }): Promise<Row[]> {
  try {
    return await send<Row>(pool, query);
  } catch (error) {
    throw error instanceof AnswerLost ? new EventStoreUnavailable(error.cause) : error;
  }
}

/** An answer of severity ERROR means that the transaction was undone; FATAL and a broken socket say nothing about it. */
function isRolledBack(error: unknown): boolean {
  return (error as { severity?: string }).severity === 'ERROR';
}

/** Deadlock or serialisation, read-only standby, out of resources, lock or statement time-out, shutting down, system error. */
function isPassing(error: unknown): boolean {
  return /^(40...|25006|53...|55P03|57...|58...)$/.test((error as { code?: string }).code ?? '');
}
