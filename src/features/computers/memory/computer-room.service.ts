import { Injectable } from '@nestjs/common';

import { Clock } from '../../../kernel/clock.ts';
import { Config } from '../../../kernel/config/config.ts';
import { systemContext } from '../../../kernel/context/command-context.ts';
import { Refusal } from '../../../kernel/errors/refusal.ts';
import { computerSandbox } from '../../../sandboxes/index.ts';
import { sleepDeadline } from '../../../sandboxes/lifecycle/deadlines.decider.ts';
import type { Computer } from '../aggregate/computer-state.decider.ts';
import type { ComputerSize } from '../aggregate/computers.events.ts';
import { Computers } from '../aggregate/computers.service.ts';
import { ComputerMemory, type MemoryOrder } from './computer-memory.service.ts';
import { resourcesOf } from './computer-sizes.ts';
import { lackSentences, type MemoryLack } from './memory-lacks.ts';
import { IdleComputers, type IdleComputer } from './idle-computers.service.ts';

/** The longest time in which room is made for a computer, in milliseconds. */
const ROOM_WITHIN_MS = 10_000;
/** The time after which room that others made is looked for, in milliseconds. */
const LOOK_EVERY_MS = 1_000;
const RETRY_AFTER_SECONDS = 10;

/**
 * Makes room in the machine's memory for a computer that is to wake: the account's own computers that are frozen sleep deeper, then
 * the one of them that was unused for the longest time goes to sleep, and then those of others that are frozen sleep deeper. One account never
 * puts another's to sleep that is awake.
 */
@Injectable()
export class ComputerRoom {
  constructor(
    private readonly memory: ComputerMemory,
    private readonly idle: IdleComputers,
    private readonly computers: Computers,
    private readonly clock: Clock,
    private readonly config: Config,
  ) {}

  /** Reserves the memory of the computer, which has that size at its next boot. Throws `capacity`. */
  async reserve(computerId: string, accountId: string, size: ComputerSize): Promise<void> {
    const order = this.orderOf(computerId, accountId, size);
    const lack = await this.find(order, () => this.memory.reserve(order));
    if (lack !== null) throw noCapacity(lack);
  }

  /** Reserves the memory of the container that is about to start. Returns a sentence about what lacks it; null if it is there. */
  async confirm(computerId: string, { accountId, boot }: Computer): Promise<string | null> {
    const order = this.orderOf(computerId, accountId, boot.size);
    const lack = await this.find(order, () => this.memory.confirm(order));
    return lack === null ? null : lackSentences[lack];
  }

  private orderOf(computerId: string, accountId: string, size: ComputerSize): MemoryOrder {
    return { sandboxId: computerSandbox(computerId), accountId, mb: resourcesOf(size, this.config).memoryMb };
  }

  /** Tries until the memory is there, and makes room meanwhile. Returns what lacks it in the end. */
  private async find({ sandboxId, accountId }: MemoryOrder, attempt: () => Promise<MemoryLack | null>): Promise<MemoryLack | null> {
    const until = performance.now() + ROOM_WITHIN_MS;
    for (;;) {
      const lack = await attempt();
      if (lack === null || performance.now() > until) return lack;
      const victim = await this.idle.next(accountId, sandboxId, lack);
      if (victim === null) return lack;
      await this.putToSleep(victim, Math.min(until - performance.now(), LOOK_EVERY_MS));
    }
  }

  /** Asks for the computer to be stopped, and waits for that. It may have become busy meanwhile, in which case another one is looked for. */
  private async putToSleep({ computerId, accountId }: IdleComputer, timeoutMs: number): Promise<void> {
    const deadlineAt = sleepDeadline(this.clock.now());
    const command = { type: 'SleepComputer' as const, accountId, depth: 'stopped' as const, reason: 'memory' as const, deadlineAt };
    try {
      await this.computers.execute(computerId, command, systemContext('computers', accountId));
    } catch (error) {
      if (error instanceof Refusal) return;
      throw error;
    }
    await this.computers.until(
      computerId,
      async () => ((await this.memory.takenBy(computerSandbox(computerId))) === null ? true : undefined),
      {
        timeoutMs,
      },
    );
  }
}

function noCapacity(lack: MemoryLack): Refusal {
  return new Refusal('capacity', lackSentences[lack], { retryAfterSeconds: RETRY_AFTER_SECONDS });
}
