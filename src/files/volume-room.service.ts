import { Injectable } from '@nestjs/common';
import { LRUCache } from 'lru-cache';

import { Config } from '../platform/config/config.ts';
import { ContainerRuntime, RuntimeRefused } from '../platform/runtime/runtime.ts';

const MIB = 1_048_576;
/** The longest time for which one volume is measured, ms. */
const MEASURE_MS = 5_000;
/** The time for which a measured size is used, ms. What callers write meanwhile is added to it. */
const SIZE_AGE_MS = 60_000;
const AGENTS_MAX = 10_000;

interface Measured {
  /** The bytes in the volume; null if it can't be measured. */
  bytes: number | null;
}

/** Knows how much room the volumes of agents have for what callers write. */
@Injectable()
export class VolumeRoom {
  private readonly sizes = new LRUCache<string, Promise<Measured>>({ max: AGENTS_MAX, ttl: SIZE_AGE_MS });

  constructor(
    private readonly runtime: ContainerRuntime,
    private readonly config: Config,
  ) {}

  /** Returns the bytes that may still be written to the agent's volume; null if that is not limited, or not known. */
  async left(agentId: string): Promise<number | null> {
    if (this.config.volumeMaxMb === 0) return null;
    const { bytes } = await this.sizeOf(agentId);
    return bytes === null ? null : Math.max(0, this.config.volumeMaxMb * MIB - bytes);
  }

  /** Counts bytes that a caller has written. */
  async add(agentId: string, bytes: number): Promise<void> {
    const size = await this.sizes.get(agentId);
    if (size !== undefined && size.bytes !== null) size.bytes += bytes;
  }

  private sizeOf(agentId: string): Promise<Measured> {
    const known = this.sizes.get(agentId);
    if (known !== undefined) return known;
    const measured = this.measure(agentId);
    this.sizes.set(agentId, measured);
    // A failure is shared only by the callers that already wait for it.
    measured.catch(() => this.sizes.delete(agentId));
    return measured;
  }

  private async measure(agentId: string): Promise<Measured> {
    try {
      const sizes = await this.runtime.volumeSizes([agentId], { withinMs: MEASURE_MS, filesMax: this.config.volumeFilesMax });
      return { bytes: sizes.get(agentId)?.bytes ?? null };
    } catch (error) {
      if (error instanceof RuntimeRefused) return { bytes: null };
      throw error;
    }
  }
}
