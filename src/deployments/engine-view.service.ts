import { Injectable } from '@nestjs/common';

import { Activity } from '../agents/index.ts';
import { EventWaits, type EventWatch } from '../platform/event-store/event-waits.ts';
import type { SagaPass } from '../platform/sagas/saga.ts';
import { ContainerRuntime, type ContainerHandle, type RuntimeEvent } from '../platform/runtime/runtime.ts';
import { EngineLimits, type EngineWork } from './engine-limits.ts';
import type { Actual } from './next-step.decider.ts';

/** A wait inside a pass ends at the latest then, and looks again. */
const WATCH_MS = 3_600_000;

/** One run for one agent: what it is told while it works, and what it did. */
export interface Pass {
  agentId: string;
  /** Aborts when the saga has to step aside. */
  signal: AbortSignal;
  /** Throws where another process may be at the agent by now. */
  mayAct: () => void;
  /** Does work that mostly waits without keeping others from their passes. */
  aside: SagaPass['aside'];
  started: ContainerHandle | null;
  /** The engine refused a step once: perhaps what it saw was not what stood there any more. */
  refused: boolean;
}

/** Looks at what is, and hears of what changes. */
@Injectable()
export class EngineView {
  /** Waits that an event of the engine cuts short, by agent. */
  private readonly attentive = new Map<string, AbortController>();

  constructor(
    private readonly runtime: ContainerRuntime,
    private readonly activity: Activity,
    private readonly waits: EventWaits,
    private readonly limits: EngineLimits,
  ) {}

  async canFreeze(): Promise<boolean> {
    return (await this.runtime.capabilities()).freeze;
  }

  /**
   * What there is of an agent that wants this generation; null where the log does not know the agent. The holds are read last: see the
   * wake gate, which commits its hold before it reads the agent's state.
   */
  async look({ agentId, started }: Pass, generation: number | null): Promise<Actual> {
    const [{ containers, volume }, lastActiveAt] = await Promise.all([
      this.runtime.inspect(agentId, generation ?? undefined),
      this.activity.lastActiveAt(agentId),
    ]);
    return { containers, volume, started, lastActiveAt, held: await this.activity.held(agentId) };
  }

  events(signal: AbortSignal): AsyncIterable<RuntimeEvent> {
    return this.runtime.events(signal);
  }

  /** Forgets when an agent that is no more was used. */
  forget(agentId: string): Promise<void> {
    return this.activity.forget(agentId);
  }

  /** Does the work as soon as the engine may do more of its kind. Rejects with the signal's reason where that aborts before. */
  inTurn<T>({ agentId, mayAct }: Pass, account: string, kind: EngineWork, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    return this.limits.run(kind, { account, agent: agentId }, signal, () => {
      // It may have waited for long.
      mayAct();
      return work();
    });
  }

  /** Does long work whose signal aborts as soon as an event makes it stale, or (where `engineToo`) its container changes. */
  async attentively<T>(
    pass: Pass,
    engineToo: boolean,
    isStale: () => Promise<boolean>,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const changed = new AbortController();
    if (engineToo) this.attentive.set(pass.agentId, changed);
    using watch = this.waits.watch(`agent-${pass.agentId}`);
    const over = AbortSignal.any([pass.signal, changed.signal]);
    // What happened between the look and the watch is not told any more: so it is looked for once.
    if (await isStale()) changed.abort();
    const watching = this.#untilStale(watch, isStale, over).then((stale) => stale && changed.abort());
    try {
      return await work(over);
    } finally {
      changed.abort();
      this.attentive.delete(pass.agentId);
      await watching;
    }
  }

  /** Most events (the saga's own, a variable, a new name) change nothing about the work. */
  async #untilStale(watch: EventWatch, isStale: () => Promise<boolean>, signal: AbortSignal): Promise<boolean> {
    while ((await watch.next(WATCH_MS, signal)) !== null) if (await isStale()) return true;
    return false;
  }

  /** The engine has told something of the agent. */
  stir(agentId: string): void {
    this.attentive.get(agentId)?.abort();
  }
}
