import { performance } from 'node:perf_hooks';
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

import { type BeforeApplicationShutdown, Injectable, type OnApplicationBootstrap } from '@nestjs/common';

const LOOK_EVERY_MS = 10_000;
/** The share of its time, of 1, that the event loop of an idle process works at most. */
const IDLE_SHARE_MAX = 0.1;
/** The number of looks in succession at which the process was idle, after which memory is released. */
const IDLE_LOOKS = 2;
/** The number of looks from one release to the next at least: what an idle process allocates fills its heap again within half a minute. */
const LOOKS_BETWEEN_RELEASES = 30;
/** The growth of the heap since the last release that makes another worth its pause, bytes. */
const GROWTH_BYTES_MIN = 48 * 1024 * 1024;

/**
 * Releases the memory that a burst of work leaves behind. V8 collects garbage only while a program allocates, so that a process which is idle
 * after a burst, such as its start with 10,000 agents, would keep 150 MB of garbage for hours. A release stops the process for
 * about 0.1 s with a live heap of 100 MB, so it happens when nothing was to do for 20 s, and at most once in five minutes.
 */
@Injectable()
export class IdleMemory implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private idleLooks = 0;
  private looksSinceRelease = LOOKS_BETWEEN_RELEASES;
  private heapAfterRelease = 0;
  private timer: NodeJS.Timeout | null = null;

  onApplicationBootstrap(): void {
    let before = performance.eventLoopUtilization();
    this.timer = setInterval(() => {
      const now = performance.eventLoopUtilization();
      this.look(performance.eventLoopUtilization(now, before).utilization, heapBytes());
      before = now;
    }, LOOK_EVERY_MS);
    this.timer.unref();
  }

  beforeApplicationShutdown(): void {
    if (this.timer !== null) clearInterval(this.timer);
  }

  /** Takes in the share of its time that the event loop worked since the last look, and the size of the heap. Returns whether it released memory. */
  look(share: number, heap: number, release = collectGarbage): boolean {
    this.idleLooks = share > IDLE_SHARE_MAX ? 0 : this.idleLooks + 1;
    this.looksSinceRelease += 1;
    const isDue = this.idleLooks >= IDLE_LOOKS && this.looksSinceRelease >= LOOKS_BETWEEN_RELEASES;
    if (!isDue || heap - this.heapAfterRelease < GROWTH_BYTES_MIN) return false;
    release();
    this.looksSinceRelease = 0;
    this.heapAfterRelease = heapBytes();
    return true;
  }
}

function heapBytes(): number {
  return getHeapStatistics().total_physical_size;
}

/**
 * Collects all garbage, and returns free pages of the heap to the system. Node offers this only by a flag, which is set for the moment. The
 * second collection shrinks the young generation, which the first one empties.
 */
function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  setFlagsFromString('--no-expose-gc');
  collect();
  collect();
}
