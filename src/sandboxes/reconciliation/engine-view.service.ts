import { Injectable } from '@nestjs/common';

import { timeoutSignal } from '../../kernel/async/timeout-signal.ts';
import { Clock } from '../../kernel/clock.ts';
import type { Wait } from '../../kernel/limits/fair-limiter.ts';
import { EventWaits, type EventWatch } from '../../eventsourcing/log/event-waits.ts';
import { ContainerRuntime } from '../../runtime/runtime.ts';
import { Activity } from '../activity/activity.service.ts';
import type { Sandbox } from '../lifecycle/sandbox.rules.ts';
import type { ActualState } from '../lifecycle/steps.rules.ts';
import { streamOf } from '../sandbox-id.ts';
import { EngineLimits, type EngineWork } from './engine-limits.ts';
import type { Pass } from './pass.ts';

/** The time without an event of the sandbox, in ms, after which long work is no longer watched. */
const WATCH_MS = 3_600_000;

/** Work that the engine does a limited number of at once. */
export interface LongWork<T> {
  kind: EngineWork;
  isStale: () => Promise<boolean>;
  run: (signal: AbortSignal) => Promise<T>;
  /** It is called if the work does not begin at once. */
  onWait?: (wait: Wait) => void;
  /** The end of the wait for a place, and that of the work, as it is when the work begins; by default both are the end of the transition. */
  ends?: { wait: AbortSignal; work: () => AbortSignal };
}

/** Reads the actual state of sandboxes, and interrupts what waits for it to change. */
@Injectable()
export class EngineView {
  /** Maps a sandbox to the wait that an event of the engine interrupts. */
  private readonly interruptible = new Map<string, AbortController>();

  constructor(
    private readonly runtime: ContainerRuntime,
    private readonly activity: Activity,
    private readonly waits: EventWaits,
    private readonly limits: EngineLimits,
    private readonly clock: Clock,
  ) {}

  /** Returns the time at which the engine is looked at now, by the service's clock. */
  now(): Date {
    return this.clock.now();
  }

  async canFreeze({ freezeRefused }: Pass): Promise<boolean> {
    return !freezeRefused && (await this.runtime.capabilities()).freeze;
  }

  /**
   * Returns the actual state of a sandbox with this generation; null if the log does not know the sandbox. The holds are read last, because
   * the wake gate commits its hold before it reads the sandbox's state.
   */
  async observe({ sandboxId, started }: Pick<Pass, 'sandboxId' | 'started'>, generation: number | null): Promise<ActualState> {
    const [{ containers, volume }, idleFrom] = await Promise.all([
      this.runtime.inspect(sandboxId, generation ?? undefined),
      this.activity.idleFrom(sandboxId),
    ]);
    return { containers, volume, started, lastActiveAt: idleFrom, ...(await this.activity.inFlight(sandboxId)) };
  }

  /** Deletes the time of the last use of a deleted sandbox. */
  deleteActivity(sandboxId: string): Promise<void> {
    return this.activity.delete(sandboxId);
  }

  /** Runs the work as soon as the engine may do more of its kind. Rejects with the signal's reason if the signal aborts first. */
  runWithinLimit<T>(
    { sandboxId, assertLease }: Pass,
    account: string,
    kind: EngineWork,
    signal: AbortSignal,
    work: () => Promise<T>,
    onWait?: (wait: Wait) => void,
  ): Promise<T> {
    const afterWait = () => {
      // The wait may have been long.
      assertLease();
      return work();
    };
    return this.limits.run(kind, { account, agent: sandboxId }, signal, afterWait, onWait);
  }

  /** Runs long work as soon as the engine may do more of its kind. Its signal aborts when it is stale, or the transition is out of time. */
  runWithinDeadline<T>(pass: Pass, sandbox: Sandbox, { kind, isStale, run, onWait, ends }: LongWork<T>): Promise<T> {
    return pass.withoutSlot(() =>
      this.runUntilStale(pass, false, isStale, (stale) => {
        const waiting = AbortSignal.any([stale, ends?.wait ?? deadlineSignal(sandbox, this.now())]);
        const work = () => run(ends === undefined ? waiting : AbortSignal.any([stale, ends.work()]));
        return this.runWithinLimit(pass, sandbox.accountId, kind, waiting, work, onWait);
      }),
    );
  }

  /** Runs long work whose signal aborts as soon as an event makes it stale or, with `engineToo`, its container changes. */
  async runUntilStale<T>(
    pass: Pass,
    engineToo: boolean,
    isStale: () => Promise<boolean>,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const changed = new AbortController();
    if (engineToo) this.interruptible.set(pass.sandboxId, changed);
    using watch = this.waits.watch(streamOf(pass.sandboxId));
    const over = AbortSignal.any([pass.signal, changed.signal]);
    // Events between the look and the watch are not reported, so the work is checked once.
    if (await isStale()) changed.abort();
    const watching = this.untilStale(watch, isStale, over).then((stale) => stale && changed.abort());
    try {
      return await work(over);
    } finally {
      changed.abort();
      this.interruptible.delete(pass.sandboxId);
      await watching;
    }
  }

  /** Returns true as soon as an event makes the work stale. Most events (the saga's own, a variable, a new name) do not. */
  private async untilStale(watch: EventWatch, isStale: () => Promise<boolean>, signal: AbortSignal): Promise<boolean> {
    while ((await watch.next(WATCH_MS, signal)) !== null) if (await isStale()) return true;
    return false;
  }

  /** Interrupts the wait for a sandbox, because the engine reported a change of it. */
  interruptWait(sandboxId: string): void {
    this.interruptible.get(sandboxId)?.abort();
  }
}

/** Returns a signal that aborts at the end of the sandbox's transition. */
export function deadlineSignal({ deadlineAt }: Pick<Sandbox, 'deadlineAt'>, now: Date): AbortSignal {
  const leftMs = deadlineAt === null ? 0 : Date.parse(deadlineAt) - now.getTime();
  return leftMs <= 0 ? AbortSignal.abort() : timeoutSignal(leftMs);
}
