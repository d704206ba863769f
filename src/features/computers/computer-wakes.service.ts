import { Injectable, type OnModuleInit } from '@nestjs/common';

import { Config } from '../../kernel/config/config.ts';
import type { CommandContext } from '../../kernel/context/command-context.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import type { ExecuteOptions } from '../../eventsourcing/aggregates/aggregates.ts';
import type { Loaded } from '../../eventsourcing/aggregates/dated-state.ts';
import { computerIdOf, type Need, type NotAwake, type Wakeable, type Written } from '../../sandboxes/index.ts';
import { restartSeconds } from '../../sandboxes/lifecycle/deadlines.rules.ts';
import { Wakeables } from '../../sandboxes/services.ts';
import { needsMemory, type Computer, type ComputerState } from './aggregate/computer-state.rules.ts';
import { requireOwned } from './aggregate/computers.decider.ts';
import type { ComputerEvent } from './aggregate/computers.events.ts';
import { Computers } from './aggregate/computers.service.ts';
import { MemoryAllocator } from './memory/memory-allocator.service.ts';

/** A request for a computer to wake. */
export interface WakeRequest {
  computerId: string;
  accountId: string;
  /** The trigger that is recorded with the wake. */
  trigger: string;
  /** The value is true if the computer is also woken after a failure. */
  fromError: boolean;
  context: CommandContext;
}

/** Wakes computers, and implements for the wake gate how they are found and woken. */
@Injectable()
export class ComputerWakes implements Wakeable<Computer>, OnModuleInit {
  readonly kind = 'computer';

  constructor(
    private readonly wakeables: Wakeables,
    private readonly computers: Computers,
    private readonly allocator: MemoryAllocator,
    private readonly config: Config,
  ) {}

  onModuleInit(): void {
    this.wakeables.register(this);
  }

  /**
   * Requests a wake of the computer if it sleeps. Throws `computer_not_found`, `invalid_state` after a failure, `revision_mismatch`, and
   * `capacity` if there is no memory for it.
   */
  async request(order: WakeRequest, options?: ExecuteOptions<ComputerEvent>): Promise<Written<Computer>> {
    const { computerId, accountId, trigger, fromError, context } = order;
    const computer = await this.computers.load(computerId, accountId);
    if (needsMemory(computer) && (fromError || computer.status !== 'error'))
      await this.allocator.reserve(computerId, accountId, computer.settings.size);
    const { startTimeoutSeconds, deployTimeoutSeconds } = this.config;
    const command = { type: 'WakeComputer' as const, accountId, trigger, fromError, startTimeoutSeconds, deployTimeoutSeconds };
    return this.computers.write(computerId, accountId, command, context, options);
  }

  find(sandboxId: string): Promise<Loaded<ComputerState>> {
    return this.computers.find(computerIdOf(sandboxId));
  }

  requireOwned(computer: ComputerState, accountId: string): Computer {
    return requireOwned(computer, accountId);
  }

  isAwake({ status }: Computer): boolean {
    return status === 'awake';
  }

  wake({ sandboxId, accountId, trigger, context }: Need): Promise<Written<Computer>> {
    return this.request({ computerId: computerIdOf(sandboxId), accountId, trigger, fromError: false, context });
  }

  until<T>(sandboxId: string, probe: () => Promise<T | undefined>, options: { timeoutMs: number }): Promise<T | null> {
    return this.computers.until(computerIdOf(sandboxId), probe, options);
  }

  wakeSeconds({ image }: Computer): number {
    const { startTimeoutSeconds, deployTimeoutSeconds } = this.config;
    return image === null ? deployTimeoutSeconds : restartSeconds(startTimeoutSeconds);
  }

  notAwake(why: NotAwake): ProblemError {
    switch (why) {
      case 'asleep':
        return new ProblemError('computer_asleep', 'The computer is not awake.');
      case 'late':
        return new ProblemError('desktop_timeout', 'The computer did not wake in time.');
      case 'gone':
        return new ProblemError('desktop_unreachable', 'The computer’s container does not run.');
    }
  }
}
