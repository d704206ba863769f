import { Injectable } from '@nestjs/common';

import { Clock } from '../../../kernel/clock.ts';
import { Config } from '../../../kernel/config/config.ts';
import { Keyring } from '../../../crypto/keyring.ts';
import type { ExecuteOptions } from '../../../eventsourcing/aggregates/aggregates.ts';
import type { ReadStreamOptions } from '../../../eventsourcing/event-store/event-store.ts';
import { systemContext, type CommandContext } from '../../../kernel/context/command-context.ts';
import { computerIdOf, executeOnce, type KindRecords, type Seen } from '../../../sandboxes/index.ts';
import { sleepDeadline } from '../../../sandboxes/lifecycle/deadlines.rules.ts';
import type { Order } from '../../../sandboxes/lifecycle/steps.rules.ts';
import type { ComputerRecord } from '../aggregate/computer-records.rules.ts';
import { beginsTransition, type Computer } from '../aggregate/computer-state.rules.ts';
import type { ComputerCommand } from '../aggregate/computers.decider.ts';
import type { ComputerEvent } from '../aggregate/computers.events.ts';
import { Computers } from '../aggregate/computers.service.ts';
import { ComputerMemory } from '../memory/computer-memory.service.ts';

export const SAGA = 'computers';

/** Reads the desired state from a computer's stream, and records outcomes on it. */
@Injectable()
export class ComputerRecords implements KindRecords<Computer> {
  private readonly recording;

  constructor(
    private readonly computers: Computers,
    private readonly keyring: Keyring,
    private readonly memory: ComputerMemory,
    private readonly clock: Clock,
    private readonly config: Config,
  ) {
    const streams = {
      execute: (sandboxId: string, command: ComputerCommand, context: CommandContext, options: ExecuteOptions<ComputerEvent>) =>
        computers.execute(computerIdOf(sandboxId), command, context, options),
      events: (sandboxId: string, options: ReadStreamOptions) => computers.events(computerIdOf(sandboxId), options),
    };
    this.recording = { saga: SAGA, streams, beginsTransition };
  }

  async load(sandboxId: string): Promise<Seen<Computer> | null> {
    const { state, revision } = await this.computers.find(computerIdOf(sandboxId));
    return state === null ? null : { state, revision };
  }

  /** Records an outcome. Returns false, and writes nothing, if the stream has changed since it was read. */
  record(sandboxId: string, seen: Seen<Computer>, record: ComputerRecord): Promise<boolean> {
    return this.execute(sandboxId, seen, record);
  }

  order(sandboxId: string, seen: Seen<Computer>, order: Order): Promise<boolean> {
    const { accountId, generation } = seen.state;
    const { startTimeoutSeconds, deployTimeoutSeconds } = this.config;
    const deadlineAt = sleepDeadline(this.clock.now());
    switch (order) {
      case 'sleep':
        return this.execute(sandboxId, seen, { type: 'SleepComputer', accountId, depth: 'frozen', reason: 'idle', deadlineAt });
      case 'sleep_deeper':
        return this.execute(sandboxId, seen, { type: 'SleepComputer', accountId, depth: 'stopped', reason: 'deep', deadlineAt });
      case 'wake': {
        const times = { startTimeoutSeconds, deployTimeoutSeconds };
        return this.execute(sandboxId, seen, { type: 'WakeComputer', accountId, trigger: 'work in flight', fromError: false, ...times });
      }
      case 'restart':
        // Its container was made by an earlier release, and can't be used any more.
        return this.execute(sandboxId, seen, {
          type: 'RecordExit',
          generation,
          exitCode: null,
          oom: false,
          cause: 'removed',
          startTimeoutSeconds,
        });
    }
  }

  async erase(sandboxId: string, seen: Seen<Computer>): Promise<boolean> {
    await this.memory.release(sandboxId);
    await this.keyring.shred(sandboxId);
    return this.record(sandboxId, seen, { type: 'RecordDeleted' });
  }

  async recordFull(sandboxId: string, accountId: string, reason: string, saga: string): Promise<void> {
    await this.computers.execute(computerIdOf(sandboxId), { type: 'RecordVolumeFull', reason }, systemContext(saga, accountId));
  }

  /** The image of computers is nobody's to claim: the runtime keeps the one that it makes them of. */
  isClaiming(): Promise<boolean> {
    return Promise.resolve(false);
  }

  /** Releases the memory of a container that does not run. */
  releaseMemory(sandboxId: string): Promise<void> {
    return this.memory.release(sandboxId);
  }

  async close(sandboxId: string, { revision }: Seen<Computer>): Promise<void> {
    await this.computers.close(computerIdOf(sandboxId), revision);
  }

  private execute(sandboxId: string, seen: Seen<Computer>, command: ComputerCommand): Promise<boolean> {
    return executeOnce(this.recording, sandboxId, seen, command);
  }
}
