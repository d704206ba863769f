/**
 * When sandboxes were used, and that they are in use, visible to every replica.
 *
 * Owns: this process's rows in `agent_holds` and the times in `agent_activity`. Does not own the decision to wake (`WakeGate`) or to put a
 * sandbox to sleep (its saga), which read these rows.
 *
 * A1  A hold is committed when `hold` resolves, so every later reader sees it. The saga reads the holds after its request to sleep is in
 *     the log, and the wake gate reads the log after its hold is committed: one of the two always sees the other (decisions/0020).
 * A2  One row serves all holders of this process. It is kept for `LINGER_MS` after its last release, so that frequent use costs no statements.
 * A3  A `HeldRow` stands for a row that has existed without a gap. It is dropped as soon as the row may have expired, or other replicas may
 *     have ignored it because this process had lost its lease.
 * A4  Statements about one row run one after the other. Rows of several sandboxes are locked in one order, so replicas never deadlock.
 * A5  Holds of a dead replica do not count, even before they expire.
 * A6  Renewing never inserts a row, and stamping never recreates one, because both may run beside a release or a deletion.
 */
import { Injectable, Logger, type BeforeApplicationShutdown } from '@nestjs/common';

import { BatchLoader } from '../../kernel/async/batch-loader.ts';
import { Database } from '../../postgres/database/database.ts';
import { LEASE_IS_FREE } from '../../postgres/leases/leases.ts';
import { Replica, REPLICA } from '../../postgres/leases/replica.ts';
import { kindOf, type SandboxKind } from '../sandbox-id.ts';

/** The time in seconds after which a hold that is not renewed expires. */
export const HOLD_TTL_SECONDS = 10;
const RENEW_EVERY_MS = 2_500;
/** A3: The age in ms at which a hold may have expired unnoticed, because the process was suspended and did not renew it. */
const DOUBTFUL_MS = 6_000;
/** The age in milliseconds at which the row of a sandbox that nobody uses is renewed, so that it does not become doubtful before it goes. */
const LINGERING_RENEWAL_MS = DOUBTFUL_MS - RENEW_EVERY_MS;
/**
 * The time in milliseconds for which a row stays after its last release, so that a sandbox that is used again by then costs no statement. It is
 * shorter than any time after which an idle sandbox is put to sleep. The rows of computers also keep memory from others, and show what a process
 * that ended left half done, so they stay only for a moment.
 */
const LINGER_MS: Record<SandboxKind, number> = { agent: 8_000, computer: 1_000 };
/** The time in milliseconds between two looks for rows to delete. */
const RELEASE_EVERY_MS = 500;

/**
 * A5: The condition under which a row `h` of `agent_holds` keeps its sandbox awake. The hold of a replica that is known to be dead does not
 * count, even before it expires. A program of an older version has no lease under the owner's name, so its holds count until they expire.
 */
export const HOLD_COUNTS = `
  h.expires_at > clock_timestamp()
  and not exists (select from consumer_leases l where l.name = '${REPLICA}' || h.owner and ${LEASE_IS_FREE})`;

/** The age at which the rows of replicas that ended are deleted. */
const DELETE_AFTER = `interval '1 hour'`;

/**
 * Returns the expression of the replica that ended with work in flight for the sandbox, the one that ended last if there are several; null if
 * there is none. `sandboxId` is an expression, too.
 */
export function abandonedBy(sandboxId: string): string {
  return `(
  select h.owner from agent_holds h join consumer_leases l on l.name = '${REPLICA}' || h.owner
   where h.agent_id = ${sandboxId} and h.expires_at > clock_timestamp() - ${DELETE_AFTER} and ${LEASE_IS_FREE}
   order by h.expires_at desc, h.owner limit 1)`;
}

/** The time from which on the sandbox in the row `v` of `agent_activity` is idle: that of its last use, or now while it is kept awake. */
export const IDLE_FROM = `
  case when v.kept_until is null then v.last_active_at else greatest(v.last_active_at, least(v.kept_until, clock_timestamp())) end`;

/**
 * Keeps the sandbox $1 awake until $2. With `$3` an earlier time replaces a later one, and the sandbox counts as used until now. Does not
 * recreate the row of a sandbox that was deleted meanwhile.
 */
const KEEP = `
  update agent_activity v set kept_until = $2, last_active_at = ${IDLE_FROM}
   where agent_id = $1 and kept_until is distinct from $2 and ($3 or kept_until is null or kept_until < $2)`;

/** A4: Writes holds ($1) of the owner. Rows of several sandboxes are locked in one order everywhere. */
const HOLD = `
  with used as (
    insert into agent_activity as a (agent_id, last_active_at)
    select agent_id, clock_timestamp() from unnest($1::text[]) as held (agent_id) order by agent_id collate "C"
    on conflict (agent_id) do update set last_active_at = greatest(a.last_active_at, excluded.last_active_at))
  insert into agent_holds (agent_id, owner, expires_at)
  select agent_id, $2, clock_timestamp() + make_interval(secs => $3) from unnest($1::text[]) as held (agent_id) order by agent_id collate "C"
  on conflict (agent_id, owner) do update set expires_at = excluded.expires_at`;

/**
 * Stamps the last use of sandboxes. $2: their ids; $3: the seconds since each was used. Does not recreate the row of a sandbox that was
 * deleted meanwhile.
 */
const STAMP = `
  update agent_activity a set last_active_at = greatest(a.last_active_at, clock_timestamp() - make_interval(secs => used.ago))
    from (select agent_id, ago from agent_activity join unnest($2::text[], $3::float8[]) as given (agent_id, ago) using (agent_id)
          order by agent_id collate "C" for update of agent_activity) as used
    where a.agent_id = used.agent_id`;

const RELEASE = `with released as (delete from agent_holds where owner = $1 and agent_id = any($2::text[])) ${STAMP}`;

/** A6: Renews rows. Never inserts one, because a release may run at the same time. */
const RENEW = `
  with renewed as (
    update agent_holds set expires_at = clock_timestamp() + make_interval(secs => $4) where owner = $1 and agent_id = any($2::text[]))
  ${STAMP}`;

/** The work in flight for a sandbox. */
export interface InFlight {
  /** The value is true if any process, on any replica, has work in flight for the sandbox. */
  held: boolean;
  /** The replica that ended, within the last hour, while it had work in flight for the sandbox; the last one if there are several. */
  abandonedBy: string | null;
}

interface LastUse {
  agent_id: string;
  last_active_at: Date;
  idle_from: Date;
}

/** A3: A row of this process that has existed without a gap. It stays the same object for as long as that is certain. */
export interface HeldRow {
  readonly sandboxId: string;
}

/** A durable record that work for the sandbox is in flight. The sandbox is not put to sleep while it exists. */
export interface Hold {
  readonly row: HeldRow;
  /** Ends the hold and notes that the sandbox was used until now. Idempotent. The row is deleted some time later, with others. */
  release(): void;
}

/** The hold of this process on one sandbox: one row, however many callers share it. */
interface HeldSandbox {
  readonly sandboxId: string;
  holders: number;
  /** The row; null while there is none, or it may have expired. */
  row: HeldRow | null;
  /** The last statement about the row. Statements about one row run one after the other. */
  written: Promise<void>;
  /** The times at which the row was last written and at which a holder last released it, in ms of this process's clock. */
  renewedAt: number;
  usedAt: number;
}

/** Records when sandboxes were used and that they are in use, visible to every replica. */
@Injectable()
export class Activity implements BeforeApplicationShutdown {
  private readonly logger = new Logger('Activity');
  private readonly owner: string;
  private readonly bySandbox = new Map<string, HeldSandbox>();
  private renewal: NodeJS.Timeout | null = null;
  private releasing: NodeJS.Timeout | null = null;
  private isStopping = false;
  private readonly holdWrites = new BatchLoader((sandboxIds: string[]) => this.writeHolds(sandboxIds));
  private readonly lastUses = new BatchLoader((sandboxIds: string[]) => this.readLastUses(sandboxIds));

  constructor(
    private readonly database: Database,
    replica: Replica,
  ) {
    this.owner = replica.id;
    // Other replicas may have ignored the holds of this process while it had no lease.
    replica.onLost(() => this.bySandbox.forEach((held) => (held.row = null)));
  }

  /**
   * Holds the sandbox awake. The hold is committed when this resolves, so every later reader sees it. Writes nothing if the row of an earlier
   * hold still exists.
   */
  async hold(sandboxId: string): Promise<Hold> {
    const held = this.bySandbox.get(sandboxId) ?? newHeld(sandboxId);
    this.bySandbox.set(sandboxId, held);
    held.holders += 1;
    if (held.row === null || Date.now() - held.renewedAt > DOUBTFUL_MS) this.writeHold(held);
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

  /** Returns the row of this process that keeps the sandbox awake; null if there is none. */
  rowOf(sandboxId: string): HeldRow | null {
    return this.bySandbox.get(sandboxId)?.row ?? null;
  }

  /** Returns the work for the sandbox, of all replicas. */
  async inFlight(sandboxId: string): Promise<InFlight> {
    await this.releaseIdle(sandboxId);
    const [row] = await this.database.query<{ held: boolean; abandoned_by: string | null }>(
      `select exists (select from agent_holds h where h.agent_id = $1 and ${HOLD_COUNTS}) as held, ${abandonedBy('$1')} as abandoned_by`,
      [sandboxId],
    );
    return { held: row?.held ?? false, abandonedBy: row?.abandoned_by ?? null };
  }

  /** Returns whether any process, on any replica, has work in flight for the sandbox. */
  async isHeld(sandboxId: string): Promise<boolean> {
    return (await this.inFlight(sandboxId)).held;
  }

  /** Returns the time of the last use; null if the sandbox was never used. */
  async lastActiveAt(sandboxId: string): Promise<Date | null> {
    await this.releaseIdle(sandboxId);
    return (await this.lastUses.load(sandboxId))?.last_active_at ?? null;
  }

  /** Returns the time from which on the sandbox is idle: that of the last use, or now while it is kept awake. */
  async idleFrom(sandboxId: string): Promise<Date | null> {
    await this.releaseIdle(sandboxId);
    return (await this.lastUses.load(sandboxId))?.idle_from ?? null;
  }

  /** Makes the sandbox count as used until the time, or longer if it does already. This outlives the process. */
  async keepAwake(sandboxId: string, until: Date): Promise<void> {
    await this.database.query(KEEP, [sandboxId, until, false]);
  }

  /** Makes the sandbox count as used until the time and no longer; null ends it now. */
  async keepAwakeOnly(sandboxId: string, until: Date | null): Promise<void> {
    await this.database.query(KEEP, [sandboxId, until, true]);
  }

  private async readLastUses(sandboxIds: string[]): Promise<Map<string, LastUse>> {
    const rows = await this.database.query<LastUse & Record<string, unknown>>(
      `select agent_id, last_active_at, ${IDLE_FROM} as idle_from from agent_activity v where agent_id = any($1::text[])`,
      [sandboxIds],
    );
    return new Map(rows.map((row) => [row.agent_id, row]));
  }

  private async writeHolds(sandboxIds: string[]): Promise<ReadonlyMap<string, never>> {
    await this.database.query(HOLD, [sandboxIds, this.owner, HOLD_TTL_SECONDS]);
    return new Map<string, never>();
  }

  /** Deletes the rows of a deleted sandbox. */
  async delete(sandboxId: string): Promise<void> {
    await this.database.query(
      `with holds as (delete from agent_holds where agent_id = $1) delete from agent_activity where agent_id = $1`,
      [sandboxId],
    );
  }

  /** Releases all holds of this process, so that nothing waits for them to expire. */
  async beforeApplicationShutdown(): Promise<void> {
    this.isStopping = true;
    if (this.renewal !== null) clearInterval(this.renewal);
    if (this.releasing !== null) clearTimeout(this.releasing);
    await this.releaseAll([...this.bySandbox.values()].filter(({ holders }) => holders === 0));
    await Promise.allSettled([...this.bySandbox.values()].map((held) => held.written));
    await this.database.query('delete from agent_holds where owner = $1', [this.owner]).catch((error: Error) => this.warn(error));
  }

  private writeHold(held: HeldSandbox): void {
    held.row = { sandboxId: held.sandboxId };
    held.renewedAt = Date.now();
    const before = held.written;
    held.written = (async () => {
      await before.catch(() => undefined);
      await this.holdWrites.load(held.sandboxId);
    })();
  }

  private release(held: HeldSandbox): void {
    held.holders -= 1;
    held.usedAt = Date.now();
    if (held.holders === 0) this.releaseLater();
  }

  /** Starts the timer that all sandboxes share. When it fires, one statement releases all that have been idle for long enough. */
  private releaseLater(): void {
    if (this.isStopping) return;
    this.releasing ??= setTimeout(() => {
      this.releasing = null;
      const now = Date.now();
      const isDue = ({ sandboxId, holders, usedAt }: HeldSandbox) => holders === 0 && now - usedAt >= LINGER_MS[kindOf(sandboxId)];
      void this.releaseAll([...this.bySandbox.values()].filter(isDue)).then(() => {
        if ([...this.bySandbox.values()].some(({ holders }) => holders === 0)) this.releaseLater();
      });
    }, RELEASE_EVERY_MS).unref();
  }

  /** Releases the sandbox now if it has no holders, so that who is about to put it to sleep need not wait for the timer. Never throws. */
  async releaseIdle(sandboxId: string): Promise<void> {
    const held = this.bySandbox.get(sandboxId);
    if (held?.holders === 0) await this.releaseAll([held]);
  }

  /**
   * Deletes the rows and stamps the sandboxes. Never throws: a row that can't be deleted expires. A caller that arrives meanwhile writes its
   * row afterwards.
   */
  private async releaseAll(idle: readonly HeldSandbox[]): Promise<void> {
    if (idle.length === 0) return;
    const before = idle.map(({ written }) => written);
    const removed = (async () => {
      await Promise.allSettled(before);
      const ago = idle.map(({ usedAt }) => Math.max(0, Date.now() - usedAt) / 1_000);
      await this.database
        .query(RELEASE, [this.owner, idle.map(({ sandboxId }) => sandboxId), ago])
        .catch((error: Error) => this.warn(error));
    })();
    for (const held of idle) Object.assign(held, { row: null, written: removed });
    await removed;
    for (const held of idle)
      if (held.holders === 0 && held.written === removed && this.bySandbox.get(held.sandboxId) === held)
        this.bySandbox.delete(held.sandboxId);
    if (this.bySandbox.size > 0 || this.renewal === null) return;
    clearInterval(this.renewal);
    this.renewal = null;
  }

  private async renew(): Promise<void> {
    const now = Date.now();
    const isDue = ({ holders, row, renewedAt }: HeldSandbox) => holders > 0 || (row !== null && now - renewedAt >= LINGERING_RENEWAL_MS);
    const due = [...this.bySandbox.values()].filter(isDue);
    // The row may have expired before it is renewed, so the next caller may not rely on it.
    for (const held of due) if (now - held.renewedAt > DOUBTFUL_MS) held.row = null;
    const ids = due.map(({ sandboxId }) => sandboxId);
    const ago = due.map(({ holders, usedAt }) => (holders > 0 ? 0 : (now - usedAt) / 1_000));
    try {
      await this.database.query(RENEW, [this.owner, ids, ago, HOLD_TTL_SECONDS]);
      for (const held of due) held.renewedAt = now;
      await this.database.query(`delete from agent_holds where expires_at < clock_timestamp() - ${DELETE_AFTER}`);
    } catch (error) {
      this.warn(error as Error);
    }
  }

  private warn(error: Error): void {
    this.logger.warn(`holds on sandboxes could not be written: ${error.message}`);
  }
}

function newHeld(sandboxId: string): HeldSandbox {
  return { sandboxId, holders: 0, row: null, written: Promise.resolve(), renewedAt: 0, usedAt: 0 };
}
