import { Injectable } from '@nestjs/common';
import { LRUCache } from 'lru-cache';

import { Config } from '../../kernel/config/config.ts';
import type { ReserveBytes, VolumeSize } from '../../runtime/files.ts';
import { ContainerRuntime } from '../../runtime/runtime.ts';
import type { ContainerHandle } from '../../runtime/container.ts';
import { RuntimeRefused } from '../../runtime/runtime.errors.ts';
import { VolumeCount } from './volume-count.ts';

const MIB = 1_048_576;
/** The longest time for which one volume is measured, ms. */
const MEASURE_MS = 5_000;
/** The time for which a measured size is used, ms. What callers write meanwhile is added to it. */
const SIZE_AGE_MS = 60_000;
/** The age from which a size is measured anew before a write is refused, since files may have been removed, ms. */
const REFUSING_AGE_MS = 5_000;
/** The room in a volume that has not been measured: so many bytes, and so large a part of the volume's bound. */
const UNMEASURED = { bytesMax: 4 * MIB, part: 1 / 100 };
const AGENTS_MAX = 10_000;

interface Volume {
  count: VolumeCount;
  /** The time at which it was measured last, ms of this process's clock. */
  measuredAt: number;
  /** False if the last measurement came to nothing, so that there is no bound until the next one. */
  isMeasurable: boolean;
  measuring: Promise<void> | null;
}

/**
 * Knows how much room the volumes of agents have for what callers write. A volume is measured in the background, in its own container, while
 * the first bytes are written; only what is larger than a small part of the volume waits for that. An agent could falsify the measure, as it
 * could write by itself: `VolumeMeter`, which measures from outside, stops those that hold too much.
 */
@Injectable()
export class VolumeRoom {
  private readonly volumes = new LRUCache<string, Volume>({ max: AGENTS_MAX });

  constructor(
    private readonly runtime: ContainerRuntime,
    private readonly config: Config,
  ) {}

  /** Runs a write, which reserves room for its bytes; if it throws, they are given back. Null stands for a volume without a bound. */
  async whileWriting<T>(agentId: string, handle: ContainerHandle, write: (reserve: ReserveBytes | null) => Promise<T>): Promise<T> {
    if (this.config.volumeMaxMb === 0) return write(null);
    const volume = this.volumeOf(agentId);
    // A write that needs the size waits for it, and gets the error.
    if (ageOf(volume) > SIZE_AGE_MS) this.measured(volume, handle).catch(() => undefined);
    let reserved = 0;
    let isStored = false;
    try {
      const result = await write(async (bytes) => {
        if (!(await this.reserve(volume, handle, bytes))) return !volume.isMeasurable;
        reserved += bytes;
        return true;
      });
      isStored = true;
      return result;
    } finally {
      volume.count.settle(reserved, isStored);
    }
  }

  private async reserve(volume: Volume, handle: ContainerHandle, bytes: number): Promise<boolean> {
    if (volume.count.reserve(bytes)) return true;
    if (volume.measuring === null && ageOf(volume) <= REFUSING_AGE_MS) return false;
    await this.measured(volume, handle);
    return volume.count.reserve(bytes);
  }

  private volumeOf(agentId: string): Volume {
    const known = this.volumes.get(agentId);
    if (known !== undefined) return known;
    const most = this.config.volumeMaxMb * MIB;
    const count = new VolumeCount(most, Math.min(UNMEASURED.bytesMax, most * UNMEASURED.part));
    const volume: Volume = { count, measuredAt: -Infinity, isMeasurable: true, measuring: null };
    this.volumes.set(agentId, volume);
    return volume;
  }

  /** Resolves when the volume has been measured; callers at the same time share one measurement. */
  private measured(volume: Volume, handle: ContainerHandle): Promise<void> {
    volume.measuring ??= this.measure(volume, handle).finally(() => (volume.measuring = null));
    return volume.measuring;
  }

  private async measure(volume: Volume, handle: ContainerHandle): Promise<void> {
    volume.count.beginMeasuring();
    let found: number | null = null;
    try {
      const size = await this.sizeOf(handle);
      found = size === null ? null : this.bytesOf(size);
      volume.isMeasurable = found !== null;
      volume.measuredAt = performance.now();
    } finally {
      volume.count.endMeasuring(found);
    }
  }

  private async sizeOf(handle: ContainerHandle): Promise<VolumeSize | null> {
    try {
      return await this.runtime.files.measure(handle, { withinMs: MEASURE_MS, filesMax: this.config.volumeFilesMax });
    } catch (error) {
      if (error instanceof RuntimeRefused) return null;
      throw error;
    }
  }

  private bytesOf({ bytes, files }: VolumeSize): number {
    return files > this.config.volumeFilesMax ? Infinity : bytes;
  }
}

function ageOf({ measuredAt }: Volume): number {
  return performance.now() - measuredAt;
}
