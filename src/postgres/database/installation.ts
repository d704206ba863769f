import { pause } from '../../kernel/async/pause.ts';
import type { Database } from './database.ts';

/** The two-part advisory lock for work that only one service at a time may do. */
const LOCK_KEY = '5040, 30';
const LOCK_RETRY_MS = 200;

/** The name of a fact. `first_run` is `done` once; `log_place` names the store of the log; the others are ids. */
export type InstallationFact = 'instance_id' | 'master_key_id' | 'first_run_seed' | 'first_run' | 'log_place';

/**
 * Facts that all services on one database share. The first service to set one decides. Later only tools change them, while no service runs.
 */
export class Installation {
  constructor(private readonly database: Database) {}

  async read(fact: InstallationFact): Promise<string | null> {
    const [row] = await this.database.query<{ value: string }>('select value from installation where fact = $1', [fact]);
    return row?.value ?? null;
  }

  /** Stores the value unless the fact has one already, and returns the stored value. */
  async getOrSet(fact: InstallationFact, value: string): Promise<string> {
    await this.database.query('insert into installation (fact, value) values ($1, $2) on conflict do nothing', [fact, value]);
    return (await this.read(fact)) ?? value;
  }

  /**
   * Runs the work while no other service on the database runs such work. Returns null if the lock was not available within the timeout (in
   * ms).
   */
  async withLock<T>(work: () => Promise<T>, timeoutMs: number): Promise<T | null> {
    const client = await this.database.pool.connect();
    let broken: Error | undefined;
    try {
      for (const end = performance.now() + timeoutMs; ; await pause(LOCK_RETRY_MS)) {
        const { rows } = await client.query<{ mine: boolean }>(`select pg_try_advisory_lock(${LOCK_KEY}) as mine`);
        if (rows[0]?.mine === true) break;
        if (performance.now() > end) return null;
      }
      try {
        return await work();
      } finally {
        // If the unlock fails, the connection is closed, which releases the lock.
        await client.query(`select pg_advisory_unlock(${LOCK_KEY})`).catch((reason: Error) => (broken = reason));
      }
    } finally {
      client.release(broken);
    }
  }
}
