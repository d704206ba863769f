import { Injectable } from '@nestjs/common';

import { Config } from '../../../kernel/config/config.ts';
import type { ContainerSpec, ContainerView } from '../../../runtime/container.ts';
import { RuntimeRefused } from '../../../runtime/runtime.errors.ts';
import { computerIdOf, type KindContainers } from '../../../sandboxes/index.ts';
import type { Computer } from '../aggregate/computer-state.rules.ts';
import { DesktopPool } from '../live/desktop-pool.service.ts';
import { MemoryAllocator } from '../memory/memory-allocator.service.ts';
import { ComputerVariables } from '../variables/computer-variables.service.ts';
import { ComputerImages } from './computer-images.service.ts';
import { computerSpec } from './computer-spec.ts';

/** The grace period in which a desktop stops by itself. A browser writes its profile first. */
const STOP_GRACE_SECONDS = 10;

/** Determines what the containers of computers consist of, which memory they need, and when they are ready. */
@Injectable()
export class ComputerContainers implements KindContainers<Computer> {
  constructor(
    private readonly variables: ComputerVariables,
    private readonly allocator: MemoryAllocator,
    private readonly images: ComputerImages,
    private readonly desktops: DesktopPool,
    private readonly config: Config,
  ) {}

  async specOf(sandboxId: string, computer: Computer): Promise<ContainerSpec> {
    return computerSpec(sandboxId, computer, await this.variables.open(computerIdOf(sandboxId), computer), this.config);
  }

  /** Reserves the memory of the container. */
  async prepare(sandboxId: string, computer: Computer): Promise<void> {
    const lack = await this.allocator.confirm(computerIdOf(sandboxId), computer);
    if (lack !== null) throw new RuntimeRefused(lack);
  }

  /** Returns true once the desktop shows its first picture. */
  async isReady(computer: Computer, container: ContainerView, withinMs: number, signal: AbortSignal): Promise<boolean> {
    const { agentId: sandboxId, generation } = container;
    const awake = { computerId: computerIdOf(sandboxId), accountId: computer.accountId, generation };
    try {
      return await this.desktops.waitForFirstFrame(awake, withinMs, signal);
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

  /** The output of a desktop's programs is not captured. */
  drain(): Promise<void> {
    return Promise.resolve();
  }

  /** Nothing is kept outside the container. */
  onDeleted(): Promise<void> {
    return Promise.resolve();
  }

  /** Builds the image again. If it differs from the previous one, the computer gets a new container. */
  async pullAgain(_computer: Computer, _gone: unknown, signal: AbortSignal): Promise<void> {
    await this.images.resolve(signal);
  }
}
