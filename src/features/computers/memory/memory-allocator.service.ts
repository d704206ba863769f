import { Injectable } from '@nestjs/common';

import { Clock } from '../../../kernel/clock.ts';
import { Config } from '../../../kernel/config/config.ts';
import { systemContext } from '../../../kernel/context/command-context.ts';
import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import { computerSandbox } from '../../../sandboxes/index.ts';
import { sleepDeadline } from '../../../sandboxes/lifecycle/deadlines.rules.ts';
import type { Computer } from '../aggregate/computer-state.rules.ts';
import type { ComputerSize } from '../aggregate/computers.events.ts';
import { Computers } from '../aggregate/computers.service.ts';
import { ComputerMemory, type MemoryRequest } from './computer-memory.service.ts';
import { resourcesOf } from './computer-sizes.ts';
import { limitMessages, type MemoryLimit } from './memory-limits.ts';
import { IdleComputers, type IdleComputer } from './idle-computers.service.ts';

/** The longest time for freeing memory for a computer, in ms. */
const ALLOCATION_TIMEOUT_MS = 10_000;
/** Memory that others have released is checked for at this interval, in ms. */
const POLL_EVERY_MS = 1_000;
const RETRY_AFTER_SECONDS = 10;

/**
 * Frees memory of the machine for a computer that is to wake. First the account's frozen computers are stopped, then its awake computer
 * that was unused for the longest time is put to sleep, then the frozen computers of other accounts are stopped. An awake computer of
 * another account is never put to sleep.
 */
@Injectable()
export class MemoryAllocator {
  constructor(
    private readonly memory: ComputerMemory,
    private readonly idle: IdleComputers,
    private readonly computers: Computers,
    private readonly clock: Clock,
    private readonly config: Config,
  ) {}

  /** Reserves the memory for the computer's next boot at that size. Throws `capacity`. */
  async reserve(computerId: string, accountId: string, size: ComputerSize): Promise<void> {
    const order = this.requestOf(computerId, accountId, size);
    const lack = await this.allocate(order, () => this.memory.reserve(order));
    if (lack !== null) throw capacityRefusal(lack);
  }

  /** Reserves the memory of the container that is about to start. Returns a sentence about the reached limit; null if it is reserved. */
  async confirm(computerId: string, { accountId, boot }: Computer): Promise<string | null> {
    const order = this.requestOf(computerId, accountId, boot.size);
    const lack = await this.allocate(order, () => this.memory.confirm(order));
    return lack === null ? null : limitMessages[lack];
  }

  private requestOf(computerId: string, accountId: string, size: ComputerSize): MemoryRequest {
    return { sandboxId: computerSandbox(computerId), accountId, mb: resourcesOf(size, this.config).memoryMb };
  }

  /** Tries until the memory is reserved, freeing memory meanwhile. Returns the reached limit after the timeout; null if it is reserved. */
  private async allocate({ sandboxId, accountId }: MemoryRequest, attempt: () => Promise<MemoryLimit | null>): Promise<MemoryLimit | null> {
    const until = performance.now() + ALLOCATION_TIMEOUT_MS;
    for (;;) {
      const lack = await attempt();
      if (lack === null || performance.now() > until) return lack;
      const evicted = await this.idle.next(accountId, sandboxId, lack);
      if (evicted === null) return lack;
      await this.putToSleep(evicted, Math.min(until - performance.now(), POLL_EVERY_MS));
    }
  }

  /** Requests that the computer be stopped, and waits for that. If it has become busy meanwhile, the next attempt chooses another one. */
  private async putToSleep({ computerId, accountId }: IdleComputer, timeoutMs: number): Promise<void> {
    const deadlineAt = sleepDeadline(this.clock.now());
    const command = { type: 'SleepComputer' as const, accountId, depth: 'stopped' as const, reason: 'memory' as const, deadlineAt };
    try {
      await this.computers.execute(computerId, command, systemContext('computers', accountId));
    } catch (error) {
      if (error instanceof ProblemError) return;
      throw error;
    }
    await this.computers.until(
      computerId,
      async () => ((await this.memory.confirmedFor(computerSandbox(computerId))) === null ? true : undefined),
      {
        timeoutMs,
      },
    );
  }
}

function capacityRefusal(lack: MemoryLimit): ProblemError {
  return new ProblemError('capacity', limitMessages[lack], { retryAfterSeconds: RETRY_AFTER_SECONDS });
}
