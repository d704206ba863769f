/**
 * Spreads the 64 shards of keys over the living replicas.
 *
 * Owns: this process's membership lease and the leases of its shards. Does not own the work on the keys: the holder (`ShardHolder`) ends it
 * before a shard is released.
 *
 * H1  The replicas that hold a valid membership lease share all shards; each holds at most its share, rounded up.
 * H2  Free shards are acquired up to the share. Surplus shards are released: idle ones at once, busy ones after a grace time.
 * H3  A shard is released only after all work on its keys has ended.
 * H4  A replica that loses its membership, because its session ended, has lost its shards with it, and starts over.
 */
import { Injectable, Logger } from '@nestjs/common';

import { Database } from '../../postgres/database/database.ts';
import { Intervals } from '../../kernel/config/intervals.ts';
import { type Lease, LEASE_IS_FREE, Leases, LEASES_RELEASED } from '../../postgres/leases/leases.ts';
import { Replica, REPLICA } from '../../postgres/leases/replica.ts';
import { SHARDS } from './shards.ts';

/** The pause before the next check if another replica was faster, in ms. */
const RECHECK_MS = 50;
/** H2: The time for which a surplus shard is kept while passes run on its keys, in ms. After that they are aborted. */
const BUSY_GRACE_MS = 20_000;

const SHARD = 'shard:';
const SHARD_NAMES = Array.from({ length: SHARDS }, (_, shard) => `${SHARD}${shard}`);

const BALANCE_SQL = `
  select (select count(*)::int from consumer_leases l where l.name like '${REPLICA}%' and not ${LEASE_IS_FREE}) as replicas,
         array(select w.name from unnest($1::text[]) w(name) left join consumer_leases l on l.name = w.name
                where l.name is null or ${LEASE_IS_FREE}) as free`;

/** Removes the leases of replicas that ended over an hour ago. The newest of them stays, as the record of when the service last ran. */
const DELETE_ENDED_SQL = `
  with ended as (select name, expires_at from consumer_leases where name like '${REPLICA}%' and expires_at < now() - interval '1 hour')
  delete from consumer_leases l using ended where l.name = ended.name and ended.expires_at < (select max(expires_at) from ended)`;

/** The part of the process that works on the keys of the shards. */
export interface ShardHolder {
  /** Called when this process has acquired the shards. */
  onAcquired(leases: ReadonlyMap<number, Lease>): void;
  /** Called when another process may work on the shard. */
  onLost(shard: number): void;
  /** Returns the shards whose keys are worked on now. */
  busyShards(): Set<number>;
  /** H3: Ends all work on the shards. They are released when this resolves. */
  releaseShards(shards: ReadonlySet<number>): Promise<void>;
}

/** Holds this process's share of the shards. See H1 to H4. */
@Injectable()
export class ShardLeases {
  private readonly logger = new Logger('Sagas');
  private readonly held = new Map<number, Lease>();
  private surplusSince: number | null = null;
  private wake: () => void = () => undefined;

  constructor(
    private readonly database: Database,
    private readonly leases: Leases,
    private readonly replica: Replica,
    private readonly intervals: Intervals = new Intervals(),
  ) {}

  /** Returns the number of shards that this process holds. */
  get count(): number {
    return this.held.size;
  }

  /** Holds this process's share of the shards until the signal aborts, and then releases them. */
  async hold(holder: ShardHolder, signal: AbortSignal): Promise<void> {
    const stopListening = await this.database.listen(LEASES_RELEASED, () => this.wake());
    await this.database.query(DELETE_ENDED_SQL).catch(() => undefined);
    while (!signal.aborted) {
      const membership = await this.leases.acquire(this.replica.lease, signal).catch(() => null);
      if (membership === null) break;
      membership.signal.addEventListener('abort', () => this.replica.notifyLost(), { once: true });
      const until = AbortSignal.any([signal, membership.signal]);
      while (!until.aborted) {
        const isSettled = await this.balance(holder).catch((error: Error) => {
          this.logger.warn(`The shards could not be balanced and are checked again: ${error.message}`);
          return true;
        });
        await this.pause(isSettled ? this.intervals.leasePollMs : RECHECK_MS, until);
      }
      if (signal.aborted) await this.release(holder, new Set(this.held.keys()), [membership]);
    }
    await stopListening();
  }

  /** Returns false if another replica was faster, and the leases should be checked again soon. */
  private async balance(holder: ShardHolder): Promise<boolean> {
    const [found] = await this.database.query<{ replicas: number; free: string[] }>(BALANCE_SQL, [SHARD_NAMES]);
    if (found === undefined) return true;
    const share = Math.ceil(SHARDS / Math.max(1, found.replicas));
    const missing = share - this.held.size;
    if (missing >= 0) this.surplusSince = null;
    if (missing < 0) this.releaseSurplus(holder, -missing);
    if (missing <= 0 || found.free.length === 0) return true;
    const wanted = shuffled(found.free).slice(0, missing);
    const taken = new Map((await this.leases.tryAcquire(wanted)).map((lease) => [Number(lease.name.slice(SHARD.length)), lease]));
    for (const [shard, lease] of taken) this.add(shard, lease, holder);
    if (taken.size > 0) {
      this.logger.log(`Holds ${this.held.size} of ${SHARDS} shards, with ${found.replicas} replicas`);
      holder.onAcquired(taken);
    }
    return taken.size === wanted.length;
  }

  private add(shard: number, lease: Lease, holder: ShardHolder): void {
    this.held.set(shard, lease);
    const lost = () => {
      if (this.held.get(shard) !== lease) return;
      this.held.delete(shard);
      holder.onLost(shard);
    };
    lease.signal.addEventListener('abort', lost, { once: true });
    if (lease.signal.aborted) lost();
  }

  /** H2: Releases that number of shards: idle ones at once, busy ones after the grace time. */
  private releaseSurplus(holder: ShardHolder, count: number): void {
    this.surplusSince ??= performance.now();
    const busy = holder.busyShards();
    const isOverdue = performance.now() - this.surplusSince > BUSY_GRACE_MS;
    const idle = [...this.held.keys()].filter((shard) => !busy.has(shard));
    const chosen = (isOverdue ? [...idle, ...busy] : idle).slice(0, count);
    if (chosen.length > 0) void this.release(holder, new Set(chosen));
  }

  private async release(holder: ShardHolder, shards: ReadonlySet<number>, also: Lease[] = []): Promise<void> {
    const leases = [...shards].flatMap((shard) => this.held.get(shard) ?? []);
    for (const shard of shards) this.held.delete(shard);
    await holder.releaseShards(shards);
    await this.leases.release([...leases, ...also]);
  }

  /** Waits for that time, or until some replica released leases. */
  private async pause(ms: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
      signal.addEventListener('abort', this.wake, { once: true });
    });
    signal.removeEventListener('abort', this.wake);
    this.wake = () => undefined;
  }
}

/** Returns the names in a random order, so that replicas that check at the same time do not all ask for the same shards. */
function shuffled(names: readonly string[]): string[] {
  return names
    .map((name) => ({ name, at: Math.random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ name }) => name);
}
