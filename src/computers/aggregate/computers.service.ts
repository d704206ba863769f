import { Injectable } from '@nestjs/common';

import { Aggregates, type Executed, type ExecuteOptions, type Loaded } from '../../platform/event-store/aggregates.ts';
import {
  EventStore,
  type ExpectedRevision,
  type Position,
  type ReadStreamOptions,
  type StoredEvent,
} from '../../platform/event-store/event-store.ts';
import { EventWaits, type EventWatch } from '../../platform/event-store/following/event-waits.ts';
import type { CommandContext } from '../../platform/context/command-context.ts';
import { computerSandbox } from '../../sandboxes/index.ts';
import type { Computer, ComputerState } from './computer-state.decider.ts';
import { computerDecider, computerNotFound, owned, type ComputerCommand } from './computers.decider.ts';
import type { ComputerEvent } from './computers.events.ts';

/**
 * Loads computers and executes commands on them. The rest of the program knows neither a computer's decider nor its stream. Every use of a
 * computer by a caller begins with `owned`.
 */
@Injectable()
export class Computers {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly store: EventStore,
    private readonly waits: EventWaits,
  ) {}

  /**
   * Returns the newest state of the account's computer, which exists until its deletion is requested. Throws `computer_not_found`, for
   * another account's computer as for a missing one. See `Aggregates.load` for `upTo`.
   */
  async owned(computerId: string, accountId: string, upTo?: Position): Promise<Computer> {
    return owned((await this.find(computerId, upTo)).state, accountId);
  }

  /** Returns the account's computer, even if it is deleted. Throws `computer_not_found`. */
  async ownedWithDeleted(computerId: string, accountId: string): Promise<Loaded<Computer>> {
    const found = await this.find(computerId);
    if (found.state?.accountId !== accountId) throw computerNotFound();
    return { ...found, state: found.state };
  }

  /** Returns the newest state of a computer of any account, even if it is deleted; null if there never was one. */
  find(computerId: string, upTo?: Position): Promise<Loaded<ComputerState>> {
    return this.aggregates.load(computerSandbox(computerId), computerDecider, upTo);
  }

  /** Executes the command. Throws the errors of the computer's rules, and those of `Aggregates.execute`. */
  execute(
    computerId: string,
    command: ComputerCommand,
    context: CommandContext,
    options?: ExecuteOptions<ComputerEvent>,
  ): Promise<Executed<ComputerState>> {
    return this.aggregates.execute(computerSandbox(computerId), computerDecider, command, context, options);
  }

  /** Reads the computer's events in order. */
  events(computerId: string, options?: ReadStreamOptions): AsyncIterable<StoredEvent> {
    return this.store.readStream(computerSandbox(computerId), options);
  }

  /** Starts to watch for the computer's events. See `EventWaits.watch`. */
  watch(computerId: string): EventWatch {
    return this.waits.watch(computerSandbox(computerId));
  }

  /** Waits until the probe has a result, which it looks for now and after each event of the computer. See `EventWaits.until`. */
  until<T>(
    computerId: string,
    probe: () => Promise<T | undefined>,
    options: { timeoutMs: number; signal?: AbortSignal },
  ): Promise<T | null> {
    return this.waits.until(computerSandbox(computerId), probe, options);
  }

  /** Closes the computer's stream, so that no event can follow, and removes its snapshots. May be repeated. */
  async close(computerId: string, expected: ExpectedRevision): Promise<void> {
    const stream = computerSandbox(computerId);
    await this.store.closeStream(stream, expected);
    await this.aggregates.removeSnapshotsOf(stream);
  }
}
