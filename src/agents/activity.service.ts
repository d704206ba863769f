import { randomUUID } from 'node:crypto';

import { Injectable, Logger, type BeforeApplicationShutdown } from '@nestjs/common';

import { Database } from '../platform/database/database.ts';

/** How long the hold of a process that died keeps its agent awake. */
export const HOLD_TTL_SECONDS = 30;
const RENEW_EVERY_MS = 10_000;
/** A hold that was not renewed for so long, because the process was suspended, may have run out unseen. */
const DOUBTFUL_MS = 20_000;

const HOLD = `
  with used as (
    insert into agent_activity as a (agent_id, last_active_at) values ($1, clock_timestamp())
    on conflict (agent_id) do update set last_active_at = greatest(a.last_active_at, excluded.last_active_at))
  insert into agent_holds (agent_id, owner, expires_at) values ($1, $2, clock_timestamp() + make_interval(secs => $3))
  on conflict (agent_id, owner) do update set expires_at = excluded.expires_at`;

const RELEASE = `
  with released as (delete from agent_holds where agent_id = $1 and owner = $2)
  insert into agent_activity as a (agent_id, last_active_at) values ($1, clock_timestamp())
  on conflict (agent_id) do update set last_active_at = greatest(a.last_active_at, excluded.last_active_at)`;

/** Never makes a row: a release may run at the same time. */
const RENEW = `
  update agent_holds set expires_at = clock_timestamp() + make_interval(secs => $3) where owner = $2 and agent_id = any($1::text[])`;

/** A durable promise that work for the agent is in flight: as long as it stands nobody puts the agent to sleep. */
export interface Hold {
  /** Ends it and stamps the agent as used now. Idempotent; never throws: what can't be taken back expires. */
  release(): Promise<void>;
}

/** What this process holds of one agent: one row, however many callers share it. */
interface Held {
  holders: number;
  /** The last statement about the row; they run one after the other. */
  written: Promise<void>;
  /** When the row was last made or renewed, ms of this process's clock. */
  renewedAt: number;
}

/** Keeps when agents were used, and that they are in use, for every replica to see. */
@Injectable()
export class Activity implements BeforeApplicationShutdown {
  private readonly logger = new Logger('Activity');
  private readonly owner = randomUUID();
  private readonly byAgent = new Map<string, Held>();
  private renewal: NodeJS.Timeout | null = null;

  constructor(private readonly database: Database) {}

  /** Committed when it resolves: whoever asks `held` from then on is told so. */
  async hold(agentId: string): Promise<Hold> {
    const held = this.byAgent.get(agentId) ?? { holders: 0, written: Promise.resolve(), renewedAt: 0 };
    this.byAgent.set(agentId, held);
    held.holders += 1;
    const now = Date.now();
    if (held.holders === 1 || now - held.renewedAt > DOUBTFUL_MS) {
      held.renewedAt = now;
      held.written = this.after(held, () => this.database.query(HOLD, [agentId, this.owner, HOLD_TTL_SECONDS]));
    }
    let released: Promise<void> | null = null;
    const hold: Hold = { release: () => (released ??= this.release(agentId, held)) };
    try {
      await held.written;
    } catch (error) {
      await hold.release();
      throw error;
    }
    this.renewal ??= setInterval(() => void this.renew(), RENEW_EVERY_MS).unref();
    return hold;
  }

  /** Whether any process, on any replica, has work in flight for the agent. */
  async held(agentId: string): Promise<boolean> {
    const [row] = await this.database.query<{ held: boolean }>(
      'select exists (select from agent_holds where agent_id = $1 and expires_at > clock_timestamp()) as held',
      [agentId],
    );
    return row?.held ?? false;
  }

  /** Null where it was never used. */
  async lastActiveAt(agentId: string): Promise<Date | null> {
    const [row] = await this.database.query<{ last_active_at: Date }>('select last_active_at from agent_activity where agent_id = $1', [
      agentId,
    ]);
    return row?.last_active_at ?? null;
  }

  /** Forgets an agent that is no more. */
  async forget(agentId: string): Promise<void> {
    await this.database.query(
      `with holds as (delete from agent_holds where agent_id = $1) delete from agent_activity where agent_id = $1`,
      [agentId],
    );
  }

  /** Gives back what this process still holds, so that nothing waits for it to expire. */
  async beforeApplicationShutdown(): Promise<void> {
    if (this.renewal !== null) clearInterval(this.renewal);
    await Promise.allSettled([...this.byAgent.values()].map((held) => held.written));
    await this.database.query('delete from agent_holds where owner = $1', [this.owner]).catch((error: Error) => this.warn(error));
  }

  private async release(agentId: string, held: Held): Promise<void> {
    held.holders -= 1;
    if (held.holders > 0) return;
    // A caller that comes meanwhile queues its own row behind this one's end.
    held.written = this.after(held, () => this.database.query(RELEASE, [agentId, this.owner]));
    await held.written.catch((error: Error) => this.warn(error));
    if (held.holders === 0 && this.byAgent.get(agentId) === held) this.byAgent.delete(agentId);
    if (this.byAgent.size > 0 || this.renewal === null) return;
    clearInterval(this.renewal);
    this.renewal = null;
  }

  private async after(held: Held, write: () => Promise<unknown>): Promise<void> {
    await held.written.catch(() => undefined);
    await write();
  }

  private async renew(): Promise<void> {
    const inUse = [...this.byAgent].filter(([, { holders }]) => holders > 0);
    const now = Date.now();
    try {
      await this.database.query(RENEW, [inUse.map(([agentId]) => agentId), this.owner, HOLD_TTL_SECONDS]);
      for (const [, held] of inUse) held.renewedAt = now;
      await this.database.query(`delete from agent_holds where expires_at < clock_timestamp() - interval '1 hour'`);
    } catch (error) {
      this.warn(error as Error);
    }
  }

  private warn(error: Error): void {
    this.logger.warn(`holds on agents could not be written: ${error.message}`);
  }
}
