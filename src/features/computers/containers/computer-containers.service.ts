import { Injectable } from '@nestjs/common';

import { Config } from '../../../kernel/config/config.ts';
import type { ContainerSpec, ContainerView } from '../../../runtime/container.ts';
import { RuntimeRefused } from '../../../runtime/runtime.errors.ts';
import { computerIdOf, type KindContainers } from '../../../sandboxes/index.ts';
import type { Computer } from '../aggregate/computer-state.decider.ts';
import { DesktopPool } from '../live/desktop-pool.service.ts';
import { ComputerRoom } from '../memory/computer-room.service.ts';
import { ComputerVariables } from '../variables/computer-variables.service.ts';
import { ComputerImages } from './computer-images.service.ts';
import { computerSpec } from './computer-spec.ts';

/** The time in which a desktop ends by itself: a browser writes its profile first. */
const STOP_GRACE_SECONDS = 10;

/** Knows what the containers of computers are made of, what they take of the machine, and how it is told that they are ready. */
@Injectable()
export class ComputerContainers implements KindContainers<Computer> {
  constructor(
    private readonly variables: ComputerVariables,
    private readonly room: ComputerRoom,
    private readonly images: ComputerImages,
    private readonly desktops: DesktopPool,
    private readonly config: Config,
  ) {}

  async specOf(sandboxId: string, computer: Computer): Promise<ContainerSpec> {
    return computerSpec(sandboxId, computer, await this.variables.open(computerIdOf(sandboxId), computer), this.config);
  }

  /** Takes the memory that the container will have. */
  async prepare(sandboxId: string, computer: Computer): Promise<void> {
    const lack = await this.room.confirm(computerIdOf(sandboxId), computer);
    if (lack !== null) throw new RuntimeRefused(lack);
  }

  /** Returns true as soon as the desktop shows its first picture. */
  async isReady(computer: Computer, container: ContainerView, withinMs: number, signal: AbortSignal): Promise<boolean> {
    const { agentId: sandboxId, generation } = container;
    const awake = { computerId: computerIdOf(sandboxId), accountId: computer.accountId, generation };
    try {
      return await this.desktops.firstFrame(awake, withinMs, signal);
    } catch (error) {
      if (signal.aborted) return false;
      throw error;
    }
  }

  explainUnready(): Promise<null> {
    return Promise.resolve(null);
  }

  stopGraceSeconds(): number {
    return STOP_GRACE_SECONDS;
  }

  /** Nobody reads what the programs of a desktop print. */
  drain(): Promise<void> {
    return Promise.resolve();
  }

  /** Nothing is kept for a container beside it. */
  forget(): Promise<void> {
    return Promise.resolve();
  }

  /** Makes the image again. If it is another one than before, the computer gets a container of that. */
  async pullAgain(_computer: Computer, _gone: unknown, signal: AbortSignal): Promise<void> {
    await this.images.resolve(signal);
  }
}
