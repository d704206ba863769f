import { Injectable } from '@nestjs/common';

import { timeoutSignal } from '../../platform/async/timeout-signal.ts';
import type { FairLimiter } from '../../platform/async/fair-limiter.ts';
import { Refusal } from '../../platform/errors/refusal.ts';
import { ContainerRuntime, type ContainerHandle } from '../../platform/runtime/runtime.ts';
import { WakeGate, type Need } from './wake-gate.service.ts';

/** The longest time that work in a container waits for its turn, ms. */
const TURN_TIMEOUT_MS = 10_000;

/** The places in which work of one kind runs. */
export interface Places {
  limiter: FairLimiter;
  /** The refusal of work that waited too long for a place. */
  full: string;
}

/** Returns the handle of the agent's running container. Throws `agent_unavailable` if there is none. */
export async function runningContainer(runtime: ContainerRuntime, agentId: string, generation: number): Promise<ContainerHandle> {
  const handle = await runtime.running({ agentId, generation });
  if (handle === null) throw new Refusal('agent_unavailable', 'The agent’s container does not run.');
  return handle;
}

/** Gives access to the running containers of live agents. */
@Injectable()
export class LiveContainers {
  constructor(
    private readonly gate: WakeGate,
    private readonly runtime: ContainerRuntime,
  ) {}

  /**
   * Runs the work, in its turn, on the container of the agent, which is woken first and held awake meanwhile. Throws `agent_not_found`,
   * `agent_unavailable`, `runtime_unavailable` and `rate_limited`, all of them before the work begins, and the signal's reason if it aborts
   * before that.
   */
  async use<T>(need: Need, places: Places, work: (handle: ContainerHandle, woken: boolean, generation: number) => Promise<T>): Promise<T> {
    if (!(await this.runtime.available()))
      throw new Refusal('runtime_unavailable', 'The container engine does not answer; nothing was done.');
    const { result } = await this.gate.whileAwake(need, async ({ generation }, woken) => {
      const patience = timeoutSignal(TURN_TIMEOUT_MS);
      const inTurn = async () => work(await runningContainer(this.runtime, need.agentId, generation), woken, generation);
      try {
        return await places.limiter.run({ account: need.accountId, agent: need.agentId }, AbortSignal.any([need.signal, patience]), inTurn);
      } catch (error) {
        if (error !== patience.reason) throw error;
        throw new Refusal('rate_limited', places.full, { retryAfterSeconds: 1 });
      }
    });
    return result;
  }
}
