import { Injectable, Logger, Optional } from '@nestjs/common';

import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { raceAbort } from '../../../kernel/async/race-abort.ts';
import { Config } from '../../../kernel/config/config.ts';
import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import { ContainerRuntime } from '../../../runtime/runtime.ts';
import type { ResolvedImage } from '../../../runtime/image-source.ts';
import { RuntimeRefused } from '../../../runtime/runtime.errors.ts';

/** Provides the image of computers, which is the same for all of them. */
@Injectable()
export class ComputerImages {
  private readonly logger = new Logger('Computers');
  private resolved: ResolvedImage | null = null;
  private resolving: Promise<ResolvedImage> | null = null;

  constructor(
    private readonly config: Config,
    @Optional() private readonly runtime?: ContainerRuntime,
  ) {}

  /** The image that this process resolved last; null if it has not resolved one yet. */
  get latest(): string | null {
    return this.resolved?.image ?? null;
  }

  /** Builds the image, or finds it. All callers share one attempt, which continues when one of them gives up. */
  resolve(signal: AbortSignal): Promise<ResolvedImage> {
    this.resolving ??= this.make().finally(() => (this.resolving = null));
    return raceAbort(this.resolving, signal);
  }

  /** Throws `desktop_unavailable` if there is no engine and this machine lacks programs of a desktop. */
  async requireInstallable(): Promise<void> {
    if (this.runtime?.name !== 'local' || this.resolved !== null) return;
    try {
      await this.resolve(timeoutSignal(this.config.deployTimeoutSeconds * 1_000));
    } catch (error) {
      if (error instanceof RuntimeRefused) throw new ProblemError('desktop_unavailable', error.message);
      throw error;
    }
  }

  private async make(): Promise<ResolvedImage> {
    const signal = timeoutSignal(this.config.deployTimeoutSeconds * 1_000);
    const log = (line: string) => this.logger.log(`the image of computers: ${line}`);
    if (this.runtime === undefined) throw new Error('without a runtime there are no images');
    this.resolved = await this.runtime.ensureImage({ kind: 'computer' }, log, signal);
    return this.resolved;
  }
}
