import { randomUUID } from 'node:crypto';

import { Injectable, Logger, type BeforeApplicationShutdown } from '@nestjs/common';

import { Database } from '../platform/database/database.ts';

/** How long the hold of a process that died keeps its agent awake: everything has settled within 10 s of a restart. */
export const HOLD_TTL_SECONDS = 10;
const RENEW_EVERY_MS = 2_500;
/** A hold that was not renewed for so long, because the process was suspended, may have run out unseen. */
const DOUBTFUL_MS = 6_000;
/** How long a row stays after its last holder has gone: an agent that is used again by then costs no statement. */
const LINGER_MS = 1_000;

const HOLD = `
  with used as (
    insert into agent_activity as a (agent_id, last_active_at) values ($1, clock_timestamp())
    on conflict (agent_id) do update set last_active_at = greatest(a.last_active_at, excluded.last_active_at))
  insert into agent_holds (agent_id, owner, expires_at) values ($1, $2, clock_timestamp() + make_interval(secs => $3))
  on conflict (agent_id, owner) do update set expires_at = excluded.expires_at`;

/** $2: ids of agents; $3: how many seconds ago each was used. The row of an agent that was forgotten meanwhile is not made anew. */
const STAMP = `
  update agent_activity a set last_active_at = greatest(a.last_active_at, clock_timestamp() - make_interval(secs => used.ago))
    from unnest($2::text[], $3::float8[]) as used (agent_id, ago) where a.agent_id = used.agent_id`;

const RELEASE = `with released as (delete from agent_holds where owner = $1 and agent_id = any($2::text[])) ${STAMP}`;

/** Never makes a row: a release may run at the same time. */
const RENEW = `
  with renewed as (
    update agent_holds set expires_at = clock_timestamp() + make_interval(secs => $4) where owner = $1 and agent_id = any($2::text[]))
  ${STAMP}`;

/** A row of this process that has stood without a gap: the same object for as long as that is certain. */
export interface HeldRow {
  readonly agentId: string;
}

/** A durable promise that work for the agent is in flight: as long as it stands nobody puts the agent to sleep. */
export interface Hold {
  readonly row: HeldRow;
  /** Ends it and notes that the agent was used until now. Idempotent. The row goes a second later, with others. */
  release(): void;
}

/** What this process holds of one agent: one row, however many callers share it. */
interface Held {
  readonly agentId: string;
  holders: number;
  /** Null while no row stands, or it may have run out. */
  row: HeldRow | null;
  /** The last statement about the row; they run one after the other. */
  written: Promise<void>;
  /** When the row was last made or renewed, and when the last holder went; ms of this process's clock. */
  renewedAt: number;
  usedAt: number;
}

interface LastUse {
  agent_id: string;
  last_active_at: Date;
}

/** Keeps when agents were used, and that they are in use, for every replica to see. */
@Injectable()
export class Activity implements BeforeApplicationShutdown {
  private readonly logger = new Logger('Activity');
  private readonly owner = randomUUID();
  private readonly byAgent = new Map<string, Held>();
  private renewal: NodeJS.Timeout | null = null;
  private releasing: NodeJS.Timeout | null = null;
  private isStopping = false;
  private readonly askedAfter = new Set<string>();
  private nextLook: Promise<Map<string, Date>> | null = null;
  private lastLook: Promise<unknown> = Promise.resolve();

  constructor(private readonly database: Database) {}

  /** Committed when it resolves: whoever looks from then on is told so. Writes nothing where the row of an earlier hold still stands. */
  async hold(agentId: string): Promise<Hold> {
    const held = this.byAgent.get(agentId) ?? newHeld(agentId);
    this.byAgent.set(agentId, held);
    held.holders += 1;
    if (held.row === null || Date.now() - held.renewedAt > DOUBTFUL_MS) this.write(held);
    const row = held.row as HeldRow;
    let isReleased = false;
    const release = () => {
      if (!isReleased) this.release(held);
      isReleased = true;
    };
    try {
      await held.written;
    } catch (error) {
      if (held.row === row) held.row = null;
      release();
      throw error;
    }
    this.renewal ??= setInterval(() => void this.renew(), RENEW_EVERY_MS).unref();
    return { row, release };
  }

  /** The row of this process that keeps the agent awake; null where there is none. */
  rowOf(agentId: string): HeldRow | null {
    return this.byAgent.get(agentId)?.row ?? null;
  }

  /** Whether any process, on any replica, has work in flight for the agent. */
  async held(agentId: string): Promise<boolean> {
    await this.releaseIdle(agentId);
    const [row] = await this.database.query<{ held: boolean }>(
      'select exists (select from agent_holds where agent_id = $1 and expires_at > clock_timestamp()) as held',
      [agentId],
    );
    return row?.held ?? false;
  }

  /** Null where it was never used. */
  async lastActiveAt(agentId: string): Promise<Date | null> {
    await this.releaseIdle(agentId);
    this.askedAfter.add(agentId);
    this.nextLook ??= this.lastLook.then(() => this.look());
    return (await this.nextLook).get(agentId) ?? null;
  }

  /** One statement serves all who ask while another one is under way. */
  private look(): Promise<Map<string, Date>> {
    const ids = [...this.askedAfter];
    this.askedAfter.clear();
    this.nextLook = null;
    const found = this.database
      .query<LastUse>('select agent_id, last_active_at from agent_activity where agent_id = any($1::text[])', [ids])
      .then((rows) => new Map(rows.map(({ agent_id, last_active_at }) => [agent_id, last_active_at])));
    this.lastLook = found.catch(() => undefined);
    return found;
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
    this.isStopping = true;
    if (this.renewal !== null) clearInterval(this.renewal);
    if (this.releasing !== null) clearTimeout(this.releasing);
    await this.releaseAll((held) => held.holders === 0);
    await Promise.allSettled([...this.byAgent.values()].map((held) => held.written));
    await this.database.query('delete from agent_holds where owner = $1', [this.owner]).catch((error: Error) => this.warn(error));
  }

  private write(held: Held): void {
    held.row = { agentId: held.agentId };
    held.renewedAt = Date.now();
    const before = held.written;
    held.written = (async () => {
      await before.catch(() => undefined);
      await this.database.query(HOLD, [held.agentId, this.owner, HOLD_TTL_SECONDS]);
    })();
  }

  private release(held: Held): void {
    held.holders -= 1;
    held.usedAt = Date.now();
    if (held.holders === 0) this.releaseLater(LINGER_MS);
  }

  /** One timer serves all agents, and one statement all those that have been idle for long enough when it fires. */
  private releaseLater(ms: number): void {
    if (this.isStopping) return;
    this.releasing ??= setTimeout(() => {
      this.releasing = null;
      const idleSince = Date.now() - LINGER_MS / 2;
      void this.releaseAll(({ holders, usedAt }) => holders === 0 && usedAt <= idleSince).then(() => {
        if ([...this.byAgent.values()].some(({ holders }) => holders === 0)) this.releaseLater(LINGER_MS / 2);
      });
    }, ms).unref();
  }

  /** Whoever is about to put the agent to sleep need not wait for the row of a caller who has gone. */
  private async releaseIdle(agentId: string): Promise<void> {
    const held = this.byAgent.get(agentId);
    if (held?.holders === 0) await this.releaseAll((other) => other === held);
  }

  /** Removes the rows and stamps the agents. Never throws: what can't be removed expires. A caller who comes meanwhile writes a row after it. */
  private async releaseAll(chosen: (held: Held) => boolean): Promise<void> {
    const idle = [...this.byAgent.values()].filter(chosen);
    if (idle.length === 0) return;
    const before = idle.map(({ written }) => written);
    const removed = (async () => {
      await Promise.allSettled(before);
      const ago = idle.map(({ usedAt }) => Math.max(0, Date.now() - usedAt) / 1_000);
      await this.database.query(RELEASE, [this.owner, idle.map(({ agentId }) => agentId), ago]).catch((error: Error) => this.warn(error));
    })();
    for (const held of idle) Object.assign(held, { row: null, written: removed });
    await removed;
    for (const held of idle)
      if (held.holders === 0 && held.written === removed && this.byAgent.get(held.agentId) === held) this.byAgent.delete(held.agentId);
    if (this.byAgent.size > 0 || this.renewal === null) return;
    clearInterval(this.renewal);
    this.renewal = null;
  }

  private async renew(): Promise<void> {
    const inUse = [...this.byAgent.values()].filter(({ holders }) => holders > 0);
    const now = Date.now();
    // It may have run out before it is renewed: whoever comes next may not rely on it.
    for (const held of inUse) if (now - held.renewedAt > DOUBTFUL_MS) held.row = null;
    const ids = inUse.map(({ agentId }) => agentId);
    try {
      await this.database.query(RENEW, [this.owner, ids, ids.map(() => 0), HOLD_TTL_SECONDS]);
      for (const held of inUse) held.renewedAt = now;
      await this.database.query(`delete from agent_holds where expires_at < clock_timestamp() - interval '1 hour'`);
    } catch (error) {
      this.warn(error as Error);
    }
  }

  private warn(error: Error): void {
    this.logger.warn(`holds on agents could not be written: ${error.message}`);
  }
}

function newHeld(agentId: string): Held {
  return { agentId, holders: 0, row: null, written: Promise.resolve(), renewedAt: 0, usedAt: 0 };
}
