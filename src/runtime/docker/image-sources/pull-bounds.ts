import { statfs } from 'node:fs/promises';
import type Dockerode from 'dockerode';
import { call } from '../engine/engine.ts';
import { isLocalEngine } from '../engine/local-engine.ts';

/** The free space that pulls leave on a disk for everything else: a share of the disk, but at most this number of bytes. */
const RESERVE_PART = 0.05;
const RESERVE_BYTES_MAX = 4 * 1024 ** 3;
const CHECK_INTERVAL_MS = 500;

export interface Disk {
  freeBytes: number;
  sizeBytes: number;
}

/** The limits of one pull. */
export interface PullBounds {
  /** The largest total size of the layers that the engine lacks, as transferred. */
  maxBytes: number;
  /** Returns the disk on which the engine unpacks images; null if that is not known here. */
  disk: () => Promise<Disk | null>;
}

/** Returns the function that inspects the engine's disk, if the engine is on this machine and its folder is visible from here. */
export function engineDisk(docker: Dockerode): () => Promise<Disk | null> {
  let folder: Promise<string | null> | null = null;
  const find = async (): Promise<string | null> => {
    if (!(await isLocalEngine(docker))) return null;
    const { DockerRootDir } = (await call(null, () => docker.info())) as { DockerRootDir?: string };
    return DockerRootDir ?? null;
  };
  return async () => {
    folder ??= find();
    try {
      const path = await folder;
      if (path === null) return null;
      const { bavail, blocks, bsize } = await statfs(path);
      return { freeBytes: bavail * bsize, sizeBytes: blocks * bsize };
    } catch {
      folder = null;
      return null;
    }
  };
}

export const isNearlyFull = ({ freeBytes, sizeBytes }: Disk): boolean => freeBytes < Math.min(RESERVE_BYTES_MAX, sizeBytes * RESERVE_PART);

/**
 * Polls the disk until the returned function is called, and calls `onFull` when the disk is nearly full. A few transferred bytes can unpack
 * to a very large size.
 */
export function watchDisk(disk: PullBounds['disk'], onFull: () => void): () => void {
  let isLooking = false;
  const look = async (): Promise<void> => {
    if (isLooking) return;
    isLooking = true;
    const found = await disk().finally(() => (isLooking = false));
    if (found !== null && isNearlyFull(found)) onFull();
  };
  void look();
  const timer = setInterval(() => void look(), CHECK_INTERVAL_MS);
  return () => clearInterval(timer);
}
