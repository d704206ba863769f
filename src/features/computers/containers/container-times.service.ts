import { uptime as machineUptime } from 'node:os';

import { Injectable } from '@nestjs/common';

import { ContainerRuntime } from '../../../runtime/runtime.ts';
import type { ContainerState, ContainerView } from '../../../runtime/container.ts';
import { RuntimeRefused, RuntimeUnavailable } from '../../../runtime/runtime.errors.ts';
import { EngineUptime } from '../../../sandboxes/services.ts';
import type { ComputerRecord } from '../aggregate/computer-records.decider.ts';
import type { Computer } from '../aggregate/computer-state.decider.ts';

/** The exit code by which an engine says that a container ended while it was away itself. A program may end with it, too. */
const NOT_SEEN_EXIT_CODE = 255;

/**
 * Gives records the times at which the engine did what they are about, so that a record which is made late, such as after a kill of the
 * service, tells the same as one that was made at once.
 */
@Injectable()
export class ContainerTimes {
  /** A test sets another time. */
  machineStartedAt = (): string => new Date(Date.now() - machineUptime() * 1_000).toISOString();

  constructor(
    private readonly runtime: ContainerRuntime,
    private readonly uptime: EngineUptime,
  ) {}

  /** Returns the record with the engine's time, or without one if nothing tells it. */
  async dated(sandboxId: string, computer: Computer, record: ComputerRecord): Promise<ComputerRecord> {
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
    // A container that was frozen before it ended was put to sleep by that.
    if (record.type === 'RecordSlept' && record.depth === 'frozen')
      return (await this.lastChange(mine, computer, 'frozen')) ?? computer.requestedAt;
    return mine?.state === 'exited' ? this.endOf(mine, computer) : null;
  }

  /**
   * Returns the time at which the container ended; null if nothing tells it. An engine that comes back after its machine went down finds that
   * its containers have ended, at which time it can't tell. So it is then the last time at which the engine is known to have been up.
   */
  private async endOf(mine: ContainerView, computer: Computer): Promise<string | null> {
    const { finishedAt, exitCode } = mine;
    if (finishedAt !== null && exitCode !== NOT_SEEN_EXIT_CODE) return finishedAt;
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
      // The request's own time is then as good as there is.
      if (error instanceof RuntimeRefused || error instanceof RuntimeUnavailable) return null;
      throw error;
    }
  }
}
