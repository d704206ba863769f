/*
 * Gives the records about a computer's container the times at which the engine really did it.
 *
 * It owns the choice among the engine's times. It does not own the counting of time awake (usage/), or the times at which the engine was up
 * (`EngineUptime`).
 *
 * Invariants (decisions/0063):
 * T1. A computer's time awake is counted between the engine's own times, so that a kill of the service, which makes records late, changes
 *     nothing of it.
 * T2. If the engine did not see a container exit (its machine went down), the container counts as exited at the last time at which the
 *     engine was known to be up.
 * T3. If the engine has no time for an event, the time of the request is used, or the record is made without one.
 */

import { uptime as machineUptime } from 'node:os';

import { Injectable } from '@nestjs/common';

import { ContainerRuntime } from '../../../runtime/runtime.ts';
import type { ContainerState, ContainerView } from '../../../runtime/container.ts';
import { RuntimeRefused, RuntimeUnavailable } from '../../../runtime/runtime.errors.ts';
import { EngineUptime } from '../../../sandboxes/services.ts';
import type { ComputerRecord } from '../aggregate/computer-records.rules.ts';
import type { Computer } from '../aggregate/computer-state.rules.ts';

/** T2: the exit code with which an engine reports a container that exited while the engine was down. A program may use it, too. */
const UNSEEN_EXIT_CODE = 255;

/**
 * Adds the engine's times to records, so that a record that is made late, such as after a kill of the service, equals one that was made
 * immediately.
 */
@Injectable()
export class ContainerTimes {
  /** A test sets another time. */
  machineStartedAt = (): string => new Date(Date.now() - machineUptime() * 1_000).toISOString();

  constructor(
    private readonly runtime: ContainerRuntime,
    private readonly uptime: EngineUptime,
  ) {}

  /** Returns the record with the engine's time, or without one if it is not known. */
  async withEngineTime(sandboxId: string, computer: Computer, record: ComputerRecord): Promise<ComputerRecord> {
    if (record.type !== 'RecordReady' && record.type !== 'RecordSlept' && record.type !== 'RecordExit') return record;
    const at = await this.timeOf(sandboxId, computer, record);
    return at === null ? record : { ...record, at };
  }

  private async timeOf(
    sandboxId: string,
    computer: Computer,
    record: Extract<ComputerRecord, { type: 'RecordReady' | 'RecordSlept' | 'RecordExit' }>,
  ): Promise<string | null> {
    const mine = await this.containerOf(sandboxId, computer.generation);
    if (record.type === 'RecordReady' && computer.sleepDepth !== 'frozen') return mine?.startedAt ?? null;
    if (record.type === 'RecordReady') return (await this.lastChange(mine, computer, 'running')) ?? computer.requestedAt;
    // A container that was frozen before it exited fell asleep when it was frozen.
    if (record.type === 'RecordSlept' && record.depth === 'frozen')
      return (await this.lastChange(mine, computer, 'frozen')) ?? computer.requestedAt;
    return mine?.state === 'exited' ? this.endOf(mine, computer) : null;
  }

  /**
   * Returns the time at which the container exited; null if it is not known. T2: an engine that starts after its machine went down finds its
   * containers exited, but does not know when.
   */
  private async endOf(mine: ContainerView, computer: Computer): Promise<string | null> {
    const { finishedAt, exitCode } = mine;
    if (finishedAt !== null && exitCode !== UNSEEN_EXIT_CODE) return finishedAt;
    const seen = await this.lastChange(mine, { requestedAt: computer.activeSince ?? computer.requestedAt }, 'exited');
    if (seen !== null) return finishedAt ?? seen;
    const found = finishedAt ?? this.machineStart(computer);
    return found === null ? null : (await this.uptime.lastUp(new Date(found))).toISOString();
  }

  /** Returns the time at which this machine was started, if the computer was awake before; otherwise null. */
  private machineStart({ activeSince }: Computer): string | null {
    const startedAt = this.machineStartedAt();
    return activeSince !== null && activeSince < startedAt ? startedAt : null;
  }

  private async containerOf(sandboxId: string, generation: number): Promise<ContainerView | undefined> {
    const { containers } = await this.runtime.inspect(sandboxId, generation);
    return containers.find((container) => container.generation === generation && container.outdated === undefined);
  }

  /** Returns the time of the container's last change to the state since the transition was requested; null if the engine forgot it. */
  private async lastChange(
    mine: ContainerView | undefined,
    { requestedAt }: Pick<Computer, 'requestedAt'>,
    state: ContainerState,
  ): Promise<string | null> {
    if (mine === undefined || requestedAt === null) return null;
    try {
      const changes = await this.runtime.transitions(mine.handle, requestedAt);
      return changes.findLast((change) => change.state === state)?.at ?? null;
    } catch (error) {
      // T3
      if (error instanceof RuntimeRefused || error instanceof RuntimeUnavailable) return null;
      throw error;
    }
  }
}
