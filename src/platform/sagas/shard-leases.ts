import { randomUUID } from 'node:crypto';

import { Injectable, Logger } from '@nestjs/common';

import { Database } from '../database/database.ts';
import { type Lease, LEASE_IS_FREE, Leases, LEASES_GIVEN_BACK } from '../projections/leases.ts';
import { SHARDS } from './shards.ts';

/** How often the leases are looked at: a dead replica's shards are free within this. */
const LOOK_EVERY_MS = 1_000;
/** How soon they are looked at again where another replica was faster. */
const LOOK_AGAIN_MS = 50;
/** How long a shard that another replica should have is kept while passes are at its keys, before they are aborted. */
const BUSY_GRACE_MS = 20_000;

/** The lease that each replica holds under a name of its own tells the others that it is there. */
const REPLICA = 'replica:';
const SHARD = 'shard:';
const SHARD_NAMES = Array.from({ length: SHARDS }, (_, shard) => `${SHARD}${shard}`);

const LOOK = `
  select (select count(*)::int from consumer_leases l where l.name like '${REPLICA}%' and not ${LEASE_IS_FREE}) as replicas,
         array(select w.name from unnest($1::text[]) w(name) left join consumer_leases l on l.name = w.name
                where l.name is null or ${LEASE_IS_FREE}) as free`;

/** Replicas that ended long ago. */
const TIDY = `delete from consumer_leases where name like '${REPLICA}%' and expires_at < now() - interval '1 hour'`;

/** Who works on the keys of the shards. */
export interface ShardHolder {
  /** These shards are this process's from now on. */
  onTaken(leases: ReadonlyMap<number, Lease>): void;
  /** Another process may be at the shard from now on. */
  onLost(shard: number): void;
  /** The shards that something is being done for. */
  busyShards(): Set<number>;
  /** Ends what is being done for the shards, and does nothing more for them: they are given back then. */
  letGo(shards: ReadonlySet<number>): Promise<void>;
}

/**
 * The shards of this process. All shards are spread over the replicas that live: each holds at most its share, takes what is free up to
 * it, and gives back what is beyond it; first the shards that nothing is being done for.
 */
@Injectable()
export class ShardLeases {
  private readonly logger = new Logger('Sagas');
  private readonly name = `${REPLICA}${randomUUID()}`;
  private readonly held = new Map<number, Lease>();
  private surplusSince: number | null = null;
  private wake: () => void = () => undefined;

  constructor(
    private readonly database: Database,
    private readonly leases: Leases,
  ) {}

  /** Shards that this process holds. */
  get count(): number {
    return this.held.size;
  }

  /** Holds this process's share of the shards until the signal aborts, and gives them back then. */
  async hold(holder: ShardHolder, signal: AbortSignal): Promise<void> {
    const stopListening = await this.database.listen(LEASES_GIVEN_BACK, () => this.wake());
    await this.database.query(TIDY).catch(() => undefined);
    while (!signal.aborted) {
      const membership = await this.leases.acquire(this.name, signal).catch(() => null);
      if (membership === null) break;
      const until = AbortSignal.any([signal, membership.signal]);
      while (!until.aborted) {
        const isSettled = await this.balance(holder).catch((error: Error) => {
          this.logger.warn(`The shards could not be looked at: ${error.message}`);
          return true;
        });
        await this.pause(isSettled ? LOOK_EVERY_MS : LOOK_AGAIN_MS, until);
      }
      if (signal.aborted) await this.giveBack(holder, new Set(this.held.keys()), [membership]);
    }
    await stopListening();
  }

  /** False where it should be looked at again at once, because another replica was faster. */
  private async balance(holder: ShardHolder): Promise<boolean> {
    const [found] = await this.database.query<{ replicas: number; free: string[] }>(LOOK, [SHARD_NAMES]);
    if (found === undefined) return true;
    const share = Math.ceil(SHARDS / Math.max(1, found.replicas));
    const missing = share - this.held.size;
    if (missing >= 0) this.surplusSince = null;
    if (missing < 0) this.giveUp(holder, -missing);
    if (missing <= 0 || found.free.length === 0) return true;
    const wanted = shuffled(found.free).slice(0, missing);
    const taken = new Map((await this.leases.takeFree(wanted)).map((lease) => [Number(lease.name.slice(SHARD.length)), lease]));
    for (const [shard, lease] of taken) this.keep(shard, lease, holder);
    if (taken.size > 0) {
      this.logger.log(`Holds ${this.held.size} of ${SHARDS} shards, with ${found.replicas} replicas`);
      holder.onTaken(taken);
    }
    return taken.size === wanted.length;
  }

  private keep(shard: number, lease: Lease, holder: ShardHolder): void {
    this.held.set(shard, lease);
    const lost = () => {
      if (this.held.get(shard) !== lease) return;
      this.held.delete(shard);
      holder.onLost(shard);
    };
    lease.signal.addEventListener('abort', lost, { once: true });
    if (lease.signal.aborted) lost();
  }

  /** Gives back so many shards: idle ones at once, busy ones when they were busy for too long. */
  private giveUp(holder: ShardHolder, count: number): void {
    this.surplusSince ??= performance.now();
    const busy = holder.busyShards();
    const isOverdue = performance.now() - this.surplusSince > BUSY_GRACE_MS;
    const idle = [...this.held.keys()].filter((shard) => !busy.has(shard));
    const chosen = (isOverdue ? [...idle, ...busy] : idle).slice(0, count);
    if (chosen.length > 0) void this.giveBack(holder, new Set(chosen));
  }

  private async giveBack(holder: ShardHolder, shards: ReadonlySet<number>, also: Lease[] = []): Promise<void> {
    const leases = [...shards].flatMap((shard) => this.held.get(shard) ?? []);
    for (const shard of shards) this.held.delete(shard);
    await holder.letGo(shards);
    await this.leases.release([...leases, ...also]);
  }

  /** Ends early when leases were given back. */
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

/** In a random order, so that replicas that look at the same time do not all ask for the same ones. */
function shuffled(names: readonly string[]): string[] {
  return names
    .map((name) => ({ name, at: Math.random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ name }) => name);
}
