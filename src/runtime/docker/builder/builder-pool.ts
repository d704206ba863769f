/**
 * The builders of this process, one for each account that builds.
 *
 * Owns: the idle and working builders, and the number of caches on the engine. Does not own a build (`DockerfileBuilder`) or the container
 * of a builder (`Builder`).
 *
 * B1  An account has one build at a time, and accounts take turns for the slots of the process.
 * B2  A builder ends some time after its last build, and immediately if a build did not end by itself.
 * B3  The caches of all accounts are bounded in number: those of accounts that did not build for the longest time are removed first.
 * B4  Builders end with this process. One that was created and never started is removed by the next process.
 */
import type Dockerode from 'dockerode';

import { FairLimiter } from '../../../kernel/limits/fair-limiter.ts';
import { RuntimeRefused, RuntimeUnavailable } from '../../runtime.errors.ts';
import { eachVolume } from '../engine/bulk-list.ts';
import type { ContainerIdentities } from '../engine/container-identities.ts';
import { call, statusOf } from '../engine/engine.ts';
import { removeUntilGone } from '../engine/own-containers.ts';
import { isFull } from './build-guard.ts';
import { Builder } from './builder.ts';
import { accountOf, cacheName, ownFilter } from './builder-names.ts';
import type { BuilderConfig } from './builder-options.ts';

/** B2: The time for which a builder without work is kept for the next build of its account, in ms. */
const IDLE_MS = 3 * 60_000;
/** B4: The age from which a builder that does not run counts as left behind by its process, in ms. */
const LEFT_BEHIND_MS = 60_000;
/** The number of accounts whose last builds are remembered. */
const USED_MAX = 10_000;

export interface PoolLimits {
  /** The most builders of this process, working and idle ones together. */
  builders: number;
  /** The most caches on the engine, of all accounts together. */
  caches: number;
  /** The size of each cache, in MiB. */
  cacheMb: number;
}

interface Idle {
  builder: Builder;
  timer: NodeJS.Timeout;
}

/** The pool of builders. See B1 to B4. */
export class BuilderPool {
  private readonly limiter: FairLimiter;
  /** Idle builders by account, the one that was used last at the end. */
  private readonly idle = new Map<string, Idle>();
  private readonly working = new Set<Builder>();
  private starting = 0;
  /** The accounts that built here, the last one at the end. */
  private readonly recentAccounts = new Set<string>();
  private isClosed = false;

  constructor(
    private readonly docker: Dockerode,
    private readonly identities: Pick<ContainerIdentities, 'instance' | 'builderCodeOf'>,
    private readonly limits: PoolLimits,
  ) {
    this.limiter = new FairLimiter({ all: limits.builders, account: 1 });
  }

  /**
   * Runs the work with the account's builder, once `prepare` has returned the settings of a new one. Rejects with the signal's reason if it
   * aborts before the work begins; later the work itself has to react to it.
   */
  use<T>(
    accountId: string,
    prepare: () => Promise<BuilderConfig>,
    signal: AbortSignal,
    work: (builder: Builder, means: BuilderConfig) => Promise<T>,
  ): Promise<T> {
    return this.limiter.run({ account: accountId }, signal, async () => {
      const means = await prepare();
      const builder = await this.acquire(accountId, means, signal);
      this.working.add(builder);
      let isSound = false;
      try {
        const result = await work(builder, means);
        isSound = true;
        return result;
      } catch (error) {
        isSound = error instanceof RuntimeRefused && !signal.aborted;
        throw error;
      } finally {
        this.working.delete(builder);
        await this.release(accountId, builder, isSound);
      }
    });
  }

  /** Removes the builder with its cache. The next build begins with an empty one. */
  async discard(builder: Builder): Promise<void> {
    await builder.remove();
    await this.removeCache(cacheName(builder.identity));
  }

  /** Ends all builders. */
  async close(): Promise<void> {
    this.isClosed = true;
    const all = [...this.working, ...[...this.idle.values()].map(({ builder, timer }) => (clearTimeout(timer), builder))];
    this.idle.clear();
    await Promise.all(all.map((builder) => builder.remove().catch(() => undefined)));
  }

  private get instance(): string {
    return this.identities.instance;
  }

  private async acquire(accountId: string, means: BuilderConfig, signal: AbortSignal): Promise<Builder> {
    const found = this.idle.get(accountId);
    this.idle.delete(accountId);
    clearTimeout(found?.timer);
    this.recentAccounts.delete(accountId);
    this.recentAccounts.add(accountId);
    for (const oldest of this.recentAccounts) if (this.recentAccounts.size > USED_MAX) this.recentAccounts.delete(oldest);
    if (found !== undefined) {
      const { builder } = found;
      const hasRoom = !isFull(builder.usedKb, this.limits.cacheMb);
      if (hasRoom && builder.isSound) return builder;
      await (hasRoom ? builder.remove() : this.discard(builder));
    }
    this.starting += 1;
    try {
      return await this.start(accountId, means, signal);
    } finally {
      this.starting -= 1;
    }
  }

  private async start(accountId: string, means: BuilderConfig, signal: AbortSignal): Promise<Builder> {
    if (this.idle.size + this.working.size + this.starting > this.limits.builders) await this.endIdle([...this.idle.keys()][0]);
    await this.removeLeftBehind();
    signal.throwIfAborted();
    const builder = await Builder.start(
      this.docker,
      { instance: this.instance, accountId, code: this.identities.builderCodeOf(accountId) },
      means,
      () => this.evictCaches(),
    );
    if (!this.isClosed) return builder;
    await builder.remove();
    throw new RuntimeUnavailable(new Error('the service is stopping'));
  }

  private async release(accountId: string, builder: Builder, isSound: boolean): Promise<void> {
    if (!isSound || !builder.isSound || this.isClosed) return builder.remove();
    const timer = setTimeout(() => void this.endIdle(accountId).catch(() => undefined), IDLE_MS).unref();
    this.idle.set(accountId, { builder, timer });
  }

  private async endIdle(accountId: string | undefined): Promise<void> {
    const found = this.idle.get(accountId ?? '');
    if (found === undefined) return;
    this.idle.delete(accountId ?? '');
    clearTimeout(found.timer);
    await found.builder.remove();
  }

  /** B4: Removes builders that were created and never started, because their process ended between these two calls. */
  private async removeLeftBehind(): Promise<void> {
    const filters = { label: ownFilter(this.instance), status: ['created', 'exited', 'dead'] };
    const found = await call(null, (abortSignal) => this.docker.listContainers({ all: true, filters, abortSignal }));
    const old = found.filter(({ Created }) => Date.now() - Created * 1_000 > LEFT_BEHIND_MS);
    for (const { Id } of old) await removeUntilGone(this.docker.getContainer(Id));
  }

  /** B3: Removes unused caches until one more may be created. */
  private async evictCaches(): Promise<void> {
    const caches = await eachVolume(this.docker, ownFilter(this.instance), ({ Name, Labels }) => ({ Name, accountId: accountOf(Labels) }));
    const ranks = new Map([...this.recentAccounts].map((account, at) => [account, at] as const));
    const rank = ({ accountId }: { accountId: string }): number => ranks.get(accountId) ?? -1;
    let left = caches.length;
    for (const { Name } of caches.toSorted((a, b) => rank(a) - rank(b))) {
      if (left < this.limits.caches) return;
      if (await this.removeCache(Name)) left -= 1;
    }
  }

  /** Returns whether the cache is gone; the engine keeps one that a container uses. */
  private async removeCache(name: string): Promise<boolean> {
    try {
      await call(null, (abortSignal) => this.docker.getVolume(name).remove({ abortSignal }));
      return true;
    } catch (error) {
      if (statusOf(error) === 404) return true;
      if (statusOf(error) === 409) return false;
      throw error;
    }
  }
}
