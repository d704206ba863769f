import { readFile } from 'node:fs/promises';
import { isBridgeHere } from './links.ts';

/** The limits of the host's kernel that all agents share, and the least value of each with which one agent can't take all of it soon. */
const limits = [
  { name: 'net.ipv4.neigh.default.gc_thresh3', file: '/proc/sys/net/ipv4/neigh/default/gc_thresh3', least: 16_384 },
  { name: 'kernel.pty.max', file: '/proc/sys/kernel/pty/max', least: 65_536 },
] as const;
const READ_AGAIN_MS = 10 * 60_000;

/** Knows which limits of the kernel of the engine's machine are too low. */
export class HostLimits {
  private readAt = -Infinity;
  private low: string[] = [];

  constructor(
    /** Returns what a file of the engine's machine says; null if there is none. */
    private readonly read: (file: string) => Promise<string | null>,
    /** Receives the names of the limits that are too low, whenever they change. */
    private readonly onLow: (names: readonly string[]) => void,
  ) {}

  /** Returns a sentence that strangers may read; null if nothing is known to be too low. */
  get warning(): string | null {
    if (this.low.length === 0) return null;
    return `limits of the kernel that agents share are low on the engine’s machine (${this.low.join(', ')}): raise them`;
  }

  async refresh(now = performance.now()): Promise<void> {
    if (now - this.readAt < READ_AGAIN_MS) return;
    this.readAt = now;
    const texts = await Promise.all(limits.map(({ file }) => this.read(file)));
    const low = limits.filter(({ least }, at) => /^\d+\s*$/.test(texts[at] ?? '') && Number(texts[at]) < least).map(({ name }) => name);
    if (low.join() !== this.low.join()) this.onLow(low);
    this.low = low;
  }
}

/**
 * Returns what a file of the engine's machine says; null if that is not known. An engine behind a socket file may be in a virtual machine, so that
 * this machine's file counts only where one of the engine's bridges is. A container has no table of neighbours of its own to set limits for, and
 * lacks the file. In both cases `readThere` reads it by means of the engine.
 */
export async function readOfEngine(
  file: string,
  bridges: readonly string[],
  readThere: (file: string) => Promise<string>,
): Promise<string | null> {
  const areHere = await Promise.all(bridges.map(isBridgeHere));
  const here = areHere.includes(true) ? await readFile(file, 'utf8').catch(() => null) : null;
  return here ?? readThere(file).catch(() => null);
}
