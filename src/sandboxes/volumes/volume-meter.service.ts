import { Injectable, Logger } from '@nestjs/common';

import { Config } from '../../kernel/config/config.ts';
import { FairQueue } from '../../kernel/limits/fair-queue.ts';
import type { VolumeSize } from '../../runtime/files.ts';
import { ContainerRuntime } from '../../runtime/runtime.ts';
import { RuntimeRefused } from '../../runtime/runtime.errors.ts';
import type { SandboxOfAccount } from '../lifecycle/known-sandbox.ts';
import { ContainerKinds } from '../reconciliation/container-kinds.ts';

/** The longest time for which volumes are measured at a time, in ms, and the largest number of them. */
const MEASURE_MS = 20_000;
const VOLUMES_MAX = 1_000;
/** The time by which a sandbox's row may be late, in ms. */
const ROW_LATE_MS = 60_000;
const MIB = 1024 * 1024;

/** Finds the sandboxes whose volumes hold more than they may. Only what may have been written to since the last look is measured. */
@Injectable()
export class VolumeMeter {
  private readonly logger = new Logger('Volumes');
  /** The times at which sandboxes were measured or tried, ms since 1970. */
  private measuredAt = new Map<string, number>();
  /** The time up to which all sandboxes that wrote were measured, ms since 1970. */
  private completeTo = 0;

  constructor(
    private readonly runtime: ContainerRuntime,
    private readonly kinds: ContainerKinds,
    private readonly config: Config,
  ) {}

  get isLimited(): boolean {
    return this.config.volumeMaxMb > 0;
  }

  /** Measures volumes for 20 s at most. Returns the sandboxes whose volumes are too full, each with the reason in a sentence. */
  async findFull(): Promise<Map<string, string>> {
    const now = Date.now();
    const due = await this.thatMayWrite(new Date(this.completeTo - ROW_LATE_MS));
    const before = this.measuredAt;
    this.measuredAt = new Map(due.map(({ sandboxId }) => [sandboxId, before.get(sandboxId) ?? 0]));
    const chosen = inTurns(due, this.measuredAt).slice(0, VOLUMES_MAX);
    if (chosen.length === 0) return new Map();
    const sizes = await this.sizes(chosen);
    for (const sandboxId of chosen) this.measuredAt.set(sandboxId, now);
    if (chosen.length === due.length && chosen.every((sandboxId) => sizes.has(sandboxId))) this.completeTo = now;
    return this.reasons(sizes);
  }

  private async thatMayWrite(since: Date): Promise<SandboxOfAccount[]> {
    return (await Promise.all(this.kinds.all().map(({ rows }) => rows.thatMayWrite(since)))).flat();
  }

  private async sizes(sandboxIds: string[]): Promise<ReadonlyMap<string, VolumeSize>> {
    try {
      return await this.runtime.volumeSizes(sandboxIds, { withinMs: MEASURE_MS, filesMax: this.config.volumeFilesMax });
    } catch (error) {
      if (!(error instanceof RuntimeRefused)) throw error;
      this.logger.warn(`volumes can't be measured, so that MOORING_VOLUME_MAX_MB does not hold: ${error.message}`);
      return new Map();
    }
  }

  private reasons(sizes: ReadonlyMap<string, VolumeSize>): Map<string, string> {
    return new Map(
      [...sizes].flatMap(([sandboxId, size]): [string, string][] => {
        const reason = this.reason(size);
        return reason === null ? [] : [[sandboxId, reason]];
      }),
    );
  }

  private reason({ bytes, files }: VolumeSize): string | null {
    const { volumeMaxMb, volumeFilesMax } = this.config;
    if (files > volumeFilesMax)
      return `Its volume holds more than ${volumeFilesMax} files and folders, which is the most. It can be started again, and has to remove files then.`;
    if (bytes <= volumeMaxMb * MIB) return null;
    if (!Number.isFinite(bytes))
      return 'Its volume has paths that are too long to be measured. It can be started again, and has to remove them then.';
    return `Its volume holds ${Math.ceil(bytes / MIB)} MiB, and ${volumeMaxMb} MiB is the most. It can be started again, and has to remove files then.`;
  }
}

/** Returns the sandboxes' ids in the order of their turns: one sandbox of each account after another, each account's longest unmeasured ones first. */
export function inTurns(due: readonly SandboxOfAccount[], measuredAt: ReadonlyMap<string, number>): string[] {
  const at = (sandboxId: string): number => measuredAt.get(sandboxId) ?? 0;
  const queue = new FairQueue<string>();
  for (const { sandboxId, accountId } of due.toSorted((one, other) => at(one.sandboxId) - at(other.sandboxId)))
    queue.enqueue(accountId, sandboxId);
  return due.map(() => queue.dequeue() as string);
}
