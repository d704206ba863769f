import { Injectable } from '@nestjs/common';

import type { CommandContext } from '../../../kernel/context/command-context.ts';
import { computerSandbox } from '../../../sandboxes/index.ts';
import { WakeGate } from '../../../sandboxes/services.ts';
import type { Size } from '../../../desktop/actions/canonical-actions.ts';
import { Computers } from '../aggregate/computers.service.ts';

/** A computer that is held awake. */
export interface AwakeComputer {
  computerId: string;
  accountId: string;
  /** The container's. */
  generation: number;
}

/** A caller's request for an awake computer. */
export interface ComputerNeed {
  computerId: string;
  accountId: string;
  /** The trigger that is recorded with a wake. */
  trigger: string;
  context: CommandContext;
  /** The value false refuses a computer that is not awake with `computer_asleep`. */
  wake: boolean;
  /** Ends the wait. */
  signal: AbortSignal;
}

/** The screen that a computer has according to its settings. */
export interface ExpectedScreen extends Size {
  /** The value is true if the computer is awake, so that the real screen can be read. */
  isAwake: boolean;
}

/** Gives access to awake computers. It wakes them first. */
@Injectable()
export class LiveComputers {
  constructor(
    private readonly gate: WakeGate,
    private readonly computers: Computers,
  ) {}

  /** Returns the screen that the computer has, or will have once it is awake. Throws `computer_not_found`. */
  async screenOf({ computerId, accountId, context }: Pick<ComputerNeed, 'computerId' | 'accountId' | 'context'>): Promise<ExpectedScreen> {
    const { status, sleepDepth, boot, settings } = await this.computers.load(computerId, accountId, context.seenUpTo);
    // Changed settings take effect at the next boot.
    const isBooted = status === 'awake' || status === 'going_to_sleep' || sleepDepth === 'frozen';
    return { ...(isBooted ? boot.display : settings.display), isAwake: status === 'awake' };
  }

  /** Returns whether the computer is awake in the container of this generation. */
  isAwake(computerId: string, generation: number): Promise<boolean> {
    return this.gate.isSameRun(computerSandbox(computerId), generation);
  }

  /** Runs the work with the computer awake. Throws what `WakeGate.whileAwake` throws for a computer. */
  async whileAwake<T>(need: ComputerNeed, work: (computer: AwakeComputer, woken: boolean) => Promise<T>): Promise<T> {
    const { computerId, accountId, trigger, context, wake, signal } = need;
    const sandbox = { sandboxId: computerSandbox(computerId), accountId, trigger, context, wake, signal };
    const { result } = await this.gate.whileAwake(sandbox, ({ generation }, woken) => work({ computerId, accountId, generation }, woken));
    return result;
  }
}
