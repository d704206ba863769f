/**
 * The leases of this process in the table `consumer_leases`: the right to be the only consumer of a name.
 *
 * Owns: one database session for all leases of the process, the timer that renews them and acquires the wanted ones, and the rows that name
 * this session. Does not own what is done under a lease: the holder stops when the lease's signal aborts.
 *
 * L1  A lease has at most one holder at a time: it is acquired only if it has expired or its owner's session has ended, and each change of
 *     holder raises its epoch.
 * L2  Each write under a lease names its epoch, so a late write of an earlier holder changes nothing.
 * L3  A holder considers its lease expired no later than others do: the time to live counts from before the statement that renewed it, by
 *     the monotonic and the wall clock, and a statement that hangs fails before the time to live is over.
 * L4  All leases of the process are lost together, when their session ends. No other session ever gets its name.
 * L5  One heartbeat runs at a time, and one statement at a time on the session. A request during a heartbeat is served by the next one.
 */
import { randomUUID } from 'node:crypto';

import { Injectable, Logger } from '@nestjs/common';
import type pg from 'pg';

import { Database } from '../database/database.ts';
import { Intervals } from '../../kernel/config/intervals.ts';

/** The time after which another process may acquire a lease that was not renewed, whatever happened to its owner, in ms. */
export const TTL_MS = 10_000;
/**
 * L3: The interval of renewals (3 s) plus this timeout is less than the time to live, so a process gives up a hanging session before
 * others may acquire its leases.
 */
const STATEMENT_TIMEOUT_MS = 5_000;

/**
 * The condition that the lease in a row `l` of `consumer_leases` is free: it has expired, or its owner's session is gone. Because of the
 * latter a restart after a kill need not wait for the expiry.
 */
export const LEASE_IS_FREE = `(l.expires_at < clock_timestamp() or not exists (select from pg_stat_activity a where a.application_name = l.owner))`;

const ACQUIRE_SQL = `
  with free as (
    select w.name from unnest($2::text[]) w(name) left join consumer_leases l on l.name = w.name where l.name is null or ${LEASE_IS_FREE})
  insert into consumer_leases as l (name, owner, epoch, expires_at)
    select name, $1, 1, clock_timestamp() + $3 * interval '1 millisecond' from free order by name
  on conflict (name) do update set owner = excluded.owner, epoch = l.epoch + 1, expires_at = excluded.expires_at where ${LEASE_IS_FREE}
  returning name, epoch::text`;

const RENEW_SQL = `
  update consumer_leases l set expires_at = clock_timestamp() + $4 * interval '1 millisecond'
    from unnest($2::text[], $3::bigint[]) h(name, epoch) where l.name = h.name and l.epoch = h.epoch and l.owner = $1
  returning l.name`;

/** The channel on which released leases are announced, so that waiting processes check immediately. */
export const LEASES_RELEASED = 'mooring_leases';

const RELEASE_SQL = `
  with given as (
    update consumer_leases l set expires_at = clock_timestamp()
      from unnest($2::text[], $3::bigint[]) h(name, epoch) where l.name = h.name and l.epoch = h.epoch and l.owner = $1
    returning l.name)
  select pg_notify('${LEASES_RELEASED}', '') from given limit 1`;

/** L3: The time by both clocks: the monotonic clock may stop while the machine is suspended, and the wall clock may be set back. */
interface Instant {
  steady: number;
  wall: number;
}

const instant = (): Instant => ({ steady: performance.now(), wall: Date.now() });

/** The right to be the only consumer of its name. See L1 to L3. */
export class Lease {
  private readonly ending = new AbortController();

  constructor(
    readonly name: string,
    /** L1, L2: The number grows with every change of holder. It is a bigint as text. */
    readonly fencingToken: string,
    private renewedAt: Instant,
    private readonly onRelease: (leases: Lease[]) => Promise<void>,
  ) {}

  /** A signal that aborts when the lease was lost or released. */
  get signal(): AbortSignal {
    return this.ending.signal;
  }

  /** Returns false once another process may hold it, also after this process was suspended, before any timer has fired. */
  get valid(): boolean {
    const { steady, wall } = instant();
    return !this.signal.aborted && steady < this.renewedAt.steady + TTL_MS && wall < this.renewedAt.wall + TTL_MS;
  }

  /** Releases the lease, so that another process acquires it without waiting for the expiry. */
  async release(): Promise<void> {
    if (!this.signal.aborted) await this.onRelease([this]);
  }

  markRenewed(at: Instant): void {
    this.renewedAt = at;
  }

  markEnded(): void {
    this.ending.abort();
  }
}

/** A connection of its own. `owner` is its application name, by which other processes see that it is alive. */
interface Session {
  client: pg.PoolClient;
  owner: string;
  /** L5: Settles with the last queued statement. Leases are released while others are renewed. */
  lastStatement: Promise<unknown>;
}

/**
 * The leases of this process, for its projections, the shards of its sagas and the process itself. One statement every 3 s renews all of
 * them. Their session ends with the last lease.
 */
@Injectable()
export class Leases {
  private readonly logger = new Logger('Leases');
  private pool: pg.Pool | null = null;
  private session: Session | null = null;
  private readonly held = new Map<string, Lease>();
  private readonly waiters = new Map<string, { grant: (lease: Lease) => void; onHeld: () => void }>();
  private timer: NodeJS.Timeout | null = null;
  private isHeartbeatRunning = false;
  private isHeartbeatRequested = false;
  private renewAt = 0;
  private listening: Promise<unknown> | null = null;

  constructor(
    private readonly database: Database,
    private readonly intervals: Intervals = new Intervals(),
  ) {}

  /**
   * The name of the database session that holds the leases, or null. A crash of the database ends the session, and no other gets its name.
   */
  get sessionId(): string | null {
    return this.session?.owner ?? null;
  }

  /**
   * Waits without limit until this process holds the lease; rejects when the signal aborts. A name may have only one waiter. `onHeld` is
   * called each time another process was seen to hold the lease.
   */
  acquire(name: string, signal: AbortSignal, onHeld: () => void = () => undefined): Promise<Lease> {
    if (this.waiters.has(name) || this.held.has(name)) throw new Error(`the lease ${name} is wanted twice in this process`);
    return new Promise((resolve, reject) => {
      const giveUp = () => {
        this.waiters.delete(name);
        if (this.isIdle()) this.endSession();
        reject(signal.reason as Error);
      };
      if (signal.aborted) return giveUp();
      signal.addEventListener('abort', giveUp, { once: true });
      const grant = (lease: Lease) => {
        this.waiters.delete(name);
        signal.removeEventListener('abort', giveUp);
        resolve(lease);
      };
      this.waiters.set(name, { grant, onHeld });
      this.listening ??= this.database.listen(LEASES_RELEASED, () => this.waiters.size > 0 && this.scheduleHeartbeat(0));
      this.scheduleHeartbeat(0);
    });
  }

  /**
   * Acquires those of the leases that are free now; none if this process holds no other lease yet. Throws if the database does not respond.
   */
  async tryAcquire(names: readonly string[]): Promise<Lease[]> {
    const { session } = this;
    if (session === null || names.length === 0) return [];
    const leases = await this.claim(session, names);
    // L4: The session ended, and with it every lease that it acquired.
    if (this.session !== session) return [];
    for (const lease of leases) this.held.set(lease.name, lease);
    return leases;
  }

  /** Releases the leases with one statement. */
  async release(leases: readonly Lease[]): Promise<void> {
    const held = leases.filter(({ signal }) => !signal.aborted);
    if (this.session !== null && held.length > 0) await this.releaseHeld(held, this.session);
  }

  private isIdle(): boolean {
    return this.waiters.size === 0 && this.held.size === 0;
  }

  private scheduleHeartbeat(ms: number): void {
    if (this.isHeartbeatRunning) {
      this.isHeartbeatRequested = true;
      return;
    }
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.heartbeat(), ms);
  }

  /** L5: Heartbeats never overlap. Requests during one are served by one further heartbeat right after it. */
  private async heartbeat(): Promise<void> {
    this.timer = null;
    this.isHeartbeatRunning = true;
    this.isHeartbeatRequested = false;
    const { leasePollMs: leaseLookMs, leaseRenewMs } = this.intervals;
    await this.renewAndAcquire();
    this.isHeartbeatRunning = false;
    if (this.isIdle()) this.endSession();
    else this.scheduleHeartbeat(this.isHeartbeatRequested ? 0 : this.waiters.size > 0 ? leaseLookMs : leaseRenewMs);
  }

  private async renewAndAcquire(): Promise<void> {
    try {
      if (this.isIdle()) return;
      const session = this.session ?? (await this.openSession());
      if (performance.now() >= this.renewAt) await this.renew(session);
      if (this.waiters.size > 0) await this.acquireWanted(session);
    } catch (error) {
      this.logger.warn(`Leases could not be renewed and are considered lost: ${(error as Error).message}`);
      this.endSession();
    }
  }

  private async openSession(): Promise<Session> {
    this.pool ??= this.database.openPool('leases', 1, { query_timeout: STATEMENT_TIMEOUT_MS });
    const session: Session = { client: await this.pool.connect(), owner: `mooring-${randomUUID()}`, lastStatement: Promise.resolve() };
    this.session = session;
    const lost = () => {
      if (this.session !== session) return;
      this.endSession();
      this.scheduleHeartbeat(0);
    };
    session.client.once('error', lost);
    session.client.once('end', lost);
    await runStatement(session, `select set_config('application_name', $1, false)`, [session.owner]);
    return session;
  }

  private async renew(session: Session): Promise<void> {
    const leases = [...this.held.values()];
    const at = instant();
    // The next renewal is due a little early, so that the heartbeat after 3 s is never just too early for it.
    this.renewAt = at.steady + this.intervals.leaseRenewMs - this.intervals.leasePollMs / 2;
    if (leases.length === 0) return;
    const names = leases.map((lease) => lease.name);
    const rows = await runStatement<{ name: string }>(session, RENEW_SQL, [
      session.owner,
      names,
      leases.map((lease) => lease.fencingToken),
      TTL_MS,
    ]);
    const kept = new Set(rows.map((row) => row.name));
    for (const lease of leases)
      if (kept.has(lease.name)) lease.markRenewed(at);
      else this.expire(lease);
  }

  private async acquireWanted(session: Session): Promise<void> {
    const names = [...this.waiters.keys()];
    const leases = await this.claim(session, names);
    for (const lease of leases) {
      const { name } = lease;
      const waiter = this.waiters.get(name);
      // The waiter has given up, or the session ended meanwhile.
      if (waiter === undefined || this.session !== session) {
        await this.releaseHeld([lease], session);
        continue;
      }
      this.held.set(name, lease);
      waiter.grant(lease);
    }
    const taken = new Set(leases.map(({ name }) => name));
    for (const name of names) if (!taken.has(name)) this.waiters.get(name)?.onHeld();
  }

  private async claim(session: Session, names: readonly string[]): Promise<Lease[]> {
    const at = instant();
    const rows = await runStatement<{ name: string; epoch: string }>(session, ACQUIRE_SQL, [session.owner, names, TTL_MS]);
    return rows.map(({ name, epoch }) => new Lease(name, epoch, at, (given) => this.releaseHeld(given, session)));
  }

  private async releaseHeld(leases: Lease[], session: Session): Promise<void> {
    for (const lease of leases) this.expire(lease);
    try {
      await runStatement(session, RELEASE_SQL, [
        session.owner,
        leases.map(({ name }) => name),
        leases.map(({ fencingToken: epoch }) => epoch),
      ]);
    } catch {
      // The session is gone, and its leases with it.
    }
    if (this.isIdle()) this.endSession();
  }

  private expire(lease: Lease): void {
    if (this.held.get(lease.name) === lease) this.held.delete(lease.name);
    lease.markEnded();
  }

  private endSession(): void {
    if (this.timer !== null && this.isIdle()) clearTimeout(this.timer);
    const session = this.session;
    this.session = null;
    for (const lease of this.held.values()) this.expire(lease);
    // L4: The connection is destroyed, because its name and running statements must not live on in the pool.
    session?.client.release(true);
  }
}

/** Runs one statement at a time on the session. */
function runStatement<Row extends pg.QueryResultRow>(session: Session, text: string, values: unknown[]): Promise<Row[]> {
  const answer = session.lastStatement.then(async () => (await session.client.query<Row>(text, values)).rows);
  session.lastStatement = answer.catch(() => undefined);
  return answer;
}
