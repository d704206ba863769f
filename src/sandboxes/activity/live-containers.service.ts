import { Injectable } from '@nestjs/common';

import { timeoutSignal } from '../../kernel/async/timeout-signal.ts';
import type { FairLimiter } from '../../kernel/limits/fair-limiter.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { ContainerRuntime } from '../../runtime/runtime.ts';
import type { ContainerHandle } from '../../runtime/container.ts';
import { WakeGate } from './wake-gate.service.ts';
import type { Need } from './wakeable.ts';
import { Wakeables } from './wakeables.ts';

/** The longest time that work in a container waits for a slot, in ms. */
const SLOT_TIMEOUT_MS = 10_000;

/** The slots in which work of one kind runs. */
export interface UsageSlots {
  limiter: FairLimiter;
  /** The text of the refusal of work that waited too long for a slot. */
  full: string;
}

/** Gives access to the running containers of live sandboxes. */
@Injectable()
export class LiveContainers {
  constructor(
    private readonly gate: WakeGate,
    private readonly wakeables: Wakeables,
    private readonly runtime: ContainerRuntime,
  ) {}

  /**
   * Runs the work, once it has a slot, on the container of the sandbox, which is woken first and held awake meanwhile. Throws what
   * `WakeGate.whileAwake` throws, `runtime_unavailable` and `rate_limited`, all of them before the work begins, and the signal's reason if
   * it aborts before that.
   */
  async use<T>(
    need: Need,
    slots: UsageSlots,
    work: (handle: ContainerHandle, woken: boolean, generation: number) => Promise<T>,
  ): Promise<T> {
    await this.requireEngine('nothing was done');
    const { result } = await this.gate.whileAwake(need, async ({ generation }, woken) => {
      const patience = timeoutSignal(SLOT_TIMEOUT_MS);
      const inTurn = async () => work(await this.running(need.sandboxId, generation), woken, generation);
      try {
        return await slots.limiter.run(
          { account: need.accountId, agent: need.sandboxId },
          AbortSignal.any([need.signal, patience]),
          inTurn,
        );
      } catch (error) {
        if (error !== patience.reason) throw error;
        throw new ProblemError('rate_limited', slots.full, { retryAfterSeconds: 1 });
      }
    });
    return result;
  }

  /** Throws `runtime_unavailable` if the engine does not respond within a second; `consequence` is a part of the message. */
  async requireEngine(consequence: string): Promise<void> {
    if (!(await this.runtime.available()))
      throw new ProblemError('runtime_unavailable', `The container engine does not answer; ${consequence}.`);
  }

  /** Returns the handle of the running container of the generation. Throws the kind's refusal if there is none. */
  async running(sandboxId: string, generation: number): Promise<ContainerHandle> {
    const handle = await this.runtime.running({ agentId: sandboxId, generation });
    if (handle === null) throw this.wakeables.of(sandboxId).notAwake('gone');
    return handle;
  }
}
