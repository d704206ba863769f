/*
 * Knows how many bytes callers may still write to the volumes of agents.
 *
 * It owns one `VolumeCount` for each volume that was written to lately, and the measurements. It does not own the enforcement against the
 * agent itself: an agent could falsify this measurement, which runs in its own container, but `VolumeMeter` measures from outside.
 *
 * Invariants:
 * V1. A write reserves its bytes before it stores them. Concurrent writes together never reserve more than there is.
 * V2. A small write does not wait for a measurement: a part of the volume may be written before the first one has ended.
 * V3. A write is refused only on a measurement that is younger than REFUSAL_AGE_MS_MAX, since files may have been deleted.
 * V4. Concurrent callers share one measurement of a volume.
 */

import { Injectable } from '@nestjs/common';
import { LRUCache } from 'lru-cache';

import { Config } from '../../kernel/config/config.ts';
import type { ReserveBytes, VolumeSize } from '../../runtime/files.ts';
import { ContainerRuntime } from '../../runtime/runtime.ts';
import type { ContainerHandle } from '../../runtime/container.ts';
import { RuntimeRefused } from '../../runtime/runtime.errors.ts';
import { VolumeCount } from './volume-count.ts';

const MIB = 1_048_576;
/** The timeout of one measurement, in ms. */
const MEASURE_TIMEOUT_MS = 5_000;
/** A measured size is used for this time, in ms. Bytes that callers write meanwhile are added to it. */
const SIZE_CACHED_MS = 60_000;
/** V3: a size older than this, in ms, is measured again before a write is refused. */
const REFUSAL_AGE_MS_MAX = 5_000;
/** V2: the bytes that may be written to a volume before its first measurement: at most `bytesMax`, and at most this part of its limit. */
const UNMEASURED = { bytesMax: 4 * MIB, part: 1 / 100 };
const AGENTS_MAX = 10_000;

interface Volume {
  count: VolumeCount;
  /** The time of the last measurement, by `performance.now()`. */
  measuredAt: number;
  /** False if the last measurement failed, so that there is no limit until the next one. */
  isMeasurable: boolean;
  measuring: Promise<void> | null;
}

/**
 * Knows how many bytes callers may still write to the volumes of agents. A volume is measured in the background, in its own container, while the
 * first bytes are written.
 */
@Injectable()
export class VolumeQuota {
  private readonly volumes = new LRUCache<string, Volume>({ max: AGENTS_MAX });

  constructor(
    private readonly runtime: ContainerRuntime,
    private readonly config: Config,
  ) {}

  /** Runs a write, which reserves its bytes. If it throws, they are released. `reserve` is null for a volume without a limit. */
  async whileWriting<T>(agentId: string, handle: ContainerHandle, write: (reserve: ReserveBytes | null) => Promise<T>): Promise<T> {
    if (this.config.volumeMaxMb === 0) return write(null);
    const volume = this.volumeOf(agentId);
    // V2: only a write that needs the size waits for it and gets its error.
    if (ageOf(volume) > SIZE_CACHED_MS) this.ensureMeasured(volume, handle).catch(() => undefined);
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
      volume.count.endWrite(reserved, isStored);
    }
  }

  private async reserve(volume: Volume, handle: ContainerHandle, bytes: number): Promise<boolean> {
    if (volume.count.reserve(bytes)) return true;
    // V3
    if (volume.measuring === null && ageOf(volume) <= REFUSAL_AGE_MS_MAX) return false;
    await this.ensureMeasured(volume, handle);
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

  /** Resolves when the volume has been measured. V4 */
  private ensureMeasured(volume: Volume, handle: ContainerHandle): Promise<void> {
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
      return await this.runtime.files.measure(handle, { withinMs: MEASURE_TIMEOUT_MS, filesMax: this.config.volumeFilesMax });
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
