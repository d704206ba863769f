import { BUILDER_PIDS_MAX } from './builder-options.ts';
import { ContainerGone, RuntimeRefused } from '../../runtime.errors.ts';
import { statusOf } from '../engine/engine.ts';
import type { Builder } from './builder.ts';

/** The pause between two looks at what the builder reports, ms. */
const LOOK_MS = 250;
/** The files of a cache for each MiB that it may have. */
const FILES_PER_MB = 128;
/** The free space at which builds end: what they take without a name that could be measured, everything else on the disk would lack. */
const RESERVE_KB_MAX = 4 * 1024 * 1024;
const RESERVE_PART = 0.05;
/** The part of its bound up to which a cache is taken as it is by the next build. */
const FULL_PART = 0.6;
/** The longest time in which the size of a cache is not told, ms. A large one is measured for some seconds. */
const UNMEASURED_MS = 90_000;

/** A build ended for no reason of its own, and may succeed with another builder. `message` says in the build log what happened. */
export class BuilderLost extends Error {
  constructor(message = 'The builder was ended in the middle of the build') {
    super(message);
    this.name = 'BuilderLost';
  }
}

/** A build took more than it may, and was ended with its builder. */
export class BuildExceeds extends RuntimeRefused {
  constructor(message: string) {
    super(message);
    this.name = 'BuildExceeds';
  }
}

/** Returns whether the cache has less room than a build should have. */
export const isFull = (usedKb: number, cacheMb: number): boolean => usedKb > cacheMb * 1024 * FULL_PART;

/** Returns the number of files that a cache of this size may have. */
export const filesMaxOf = (cacheMb: number): number => cacheMb * FILES_PER_MB;

/** Returns the space of a disk that builds leave to everything else on it. */
const reserveKbOf = (sizeKb: number): number => Math.min(RESERVE_KB_MAX, sizeKb * RESERVE_PART);

/** Returns why a build has to end, from what its builder reports; null if it may go on. */
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
 * Does the work with the builder, and ends the builder when the signal aborts or the build takes more than it may: then nothing of the build is left.
 * Throws the signal's reason, `RuntimeRefused`, `BuilderLost`.
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
  }, LOOK_MS);
  void builder.ended.then(() => stop(new BuilderLost()));
  const doing = work();
  doing.catch(() => undefined);
  try {
    return await Promise.race([doing, stopped]);
  } catch (error) {
    // A command that can't begin because the container has ended tells so before the container's own end is heard.
    throw error instanceof ContainerGone || statusOf(error) === 409 ? new BuilderLost() : error;
  } finally {
    clearInterval(timer);
    signal.removeEventListener('abort', onAbort);
  }
}
