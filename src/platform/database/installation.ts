import { setTimeout as wait } from 'node:timers/promises';

import type { Database } from './database.ts';

/** Two-part advisory lock of what one service at a time does. */
const ALONE = '5040, 30';
const ALONE_AGAIN_MS = 200;

/** `first_run` is `done` once; `log_place` names the store of the log; the others are ids. */
export type InstallationFact = 'instance_id' | 'master_key_id' | 'first_run_seed' | 'first_run' | 'log_place';

/** Facts that all services on one database share: the first that says one decides. Only tools change one, while no service runs. */
export class Installation {
  constructor(private readonly database: Database) {}

  async read(fact: InstallationFact): Promise<string | null> {
    const [row] = await this.database.query<{ value: string }>('select value from installation where fact = $1', [fact]);
    return row?.value ?? null;
  }

  /** What stands from now on: the value, or the one that somebody else was faster with. */
  async settle(fact: InstallationFact, value: string): Promise<string> {
    await this.database.query('insert into installation (fact, value) values ($1, $2) on conflict do nothing', [fact, value]);
    return (await this.read(fact)) ?? value;
  }

  /** Does the work while no other service on the database does such work; null where it did not come to its turn in time (ms). */
  async alone<T>(work: () => Promise<T>, timeoutMs: number): Promise<T | null> {
    const client = await this.database.pool.connect();
    let broken: Error | undefined;
    try {
      for (const end = performance.now() + timeoutMs; ; await wait(ALONE_AGAIN_MS)) {
        const { rows } = await client.query<{ mine: boolean }>(`select pg_try_advisory_lock(${ALONE}) as mine`);
        if (rows[0]?.mine === true) break;
        if (performance.now() > end) return null;
      }
      try {
        return await work();
      } finally {
        // With the connection goes the lock.
        await client.query(`select pg_advisory_unlock(${ALONE})`).catch((reason: Error) => (broken = reason));
      }
    } finally {
      client.release(broken);
    }
  }
}
