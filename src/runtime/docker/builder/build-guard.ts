import { BUILDER_PIDS_MAX } from './builder-options.ts';
import { ContainerGone, RuntimeRefused } from '../../runtime.errors.ts';
import { statusOf } from '../engine/engine.ts';
import type { Builder } from './builder.ts';

/** The pause between two checks of the builder's reports, in ms. */
const CHECK_INTERVAL_MS = 250;
/** The most files of a cache per MiB of its bound. */
const FILES_PER_MB = 128;
/**
 * The free space at which builds end. Files that a build has removed but keeps open can't be measured, and would take the space that
 * everything else on the disk needs.
 */
const RESERVE_KB_MAX = 4 * 1024 * 1024;
const RESERVE_PART = 0.05;
/** The fraction of its bound up to which a cache is reused by the next build. */
const FULL_PART = 0.6;
/** The longest time without a measurement of the cache, in ms. Measuring a large cache takes some seconds. */
const UNMEASURED_MS = 90_000;

/** A build ended without an error of its own, and may succeed with another builder. `message` explains this in the build log. */
export class BuilderLost extends Error {
  constructor(message = 'The builder was ended in the middle of the build') {
    super(message);
    this.name = 'BuilderLost';
  }
}

/** A build exceeded its limits, and was ended with its builder. */
export class BuildExceeds extends RuntimeRefused {
  constructor(message: string) {
    super(message);
    this.name = 'BuildExceeds';
  }
}

/** Returns whether the cache has less free space than a build should have. */
export const isFull = (usedKb: number, cacheMb: number): boolean => usedKb > cacheMb * 1024 * FULL_PART;

/** Returns the number of files that a cache of this size may have. */
export const filesMaxOf = (cacheMb: number): number => cacheMb * FILES_PER_MB;

/** Returns the disk space that builds leave to everything else on the disk. */
const reserveKbOf = (sizeKb: number): number => Math.min(RESERVE_KB_MAX, sizeKb * RESERVE_PART);

/** Returns why a build has to end, judging by its builder's reports; null if it may continue. */
export function excessOf(
  { usedKb, hasTooManyFiles, disk, measuredAt }: Pick<Builder, 'usedKb' | 'hasTooManyFiles' | 'disk' | 'measuredAt'>,
  cacheMb: number,
  now: number,
): string | null {
  if (hasTooManyFiles)
    return `The build and the cache of its account made more than ${filesMaxOf(cacheMb)} files, so that the build was ended and the cache emptied.`;
  if (usedKb === Infinity) return 'The build made paths that are too long to be measured, and was ended.';
  if (usedKb > cacheMb * 1024)
    return `The build and the cache of its account took more than ${cacheMb} MiB, so that the build was ended and the cache emptied.`;
  if (disk.freeKb < reserveKbOf(disk.sizeKb)) return 'The disk on which builds are made is nearly full, so that the build was ended.';
  if (measuredAt === -Infinity)
    return `The build ran so many processes that none was left to watch it, and was ended: all steps together may have ${BUILDER_PIDS_MAX}.`;
  if (now - measuredAt > UNMEASURED_MS) return 'The size of the build could not be measured any more, so that it was ended.';
  return null;
}

/**
 * Runs the work with the builder, and ends the builder if the signal aborts or the build exceeds its limits: then nothing of the build is
 * left. Throws the signal's reason, `RuntimeRefused`, `BuilderLost`.
 */
export async function guarded<T>(builder: Builder, cacheMb: number, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  signal.throwIfAborted();
  let stop: (error: Error) => void = () => undefined;
  const stopped = new Promise<never>((_, reject) => (stop = reject));
  const onAbort = (): void => stop(signal.reason as Error);
  signal.addEventListener('abort', onAbort, { once: true });
  const timer = setInterval(() => {
    const excess = excessOf(builder, cacheMb, performance.now());
    if (excess !== null) stop(new BuildExceeds(excess));
  }, CHECK_INTERVAL_MS);
  void builder.ended.then(() => stop(new BuilderLost()));
  const doing = work();
  doing.catch(() => undefined);
  try {
    return await Promise.race([doing, stopped]);
  } catch (error) {
    // A command that can't begin because the container has ended fails before the end of the container is reported.
    throw error instanceof ContainerGone || statusOf(error) === 409 ? new BuilderLost() : error;
  } finally {
    clearInterval(timer);
    signal.removeEventListener('abort', onAbort);
  }
}
