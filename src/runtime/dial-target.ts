import type { DialTarget } from './runtime.ts';
import { RuntimeRefused } from './runtime.errors.ts';

/** The longest path of a socket that the kernel accepts, in bytes. */
const PATH_BYTES_MAX = 107;

/** Throws `RuntimeRefused` for a target that no program can listen on. */
export function validateTarget(to: DialTarget): void {
  if ('port' in to) {
    if (!Number.isInteger(to.port) || to.port < 1 || to.port > 65_535) throw new RuntimeRefused('A port is a number from 1 to 65535.');
  } else if (!to.unix.startsWith('/') || to.unix.includes('\0') || Buffer.byteLength(to.unix) > PATH_BYTES_MAX) {
    throw new RuntimeRefused(`The path of a socket is absolute, and has ${PATH_BYTES_MAX} bytes at most.`);
  }
}

export function connectionRefused(to: DialTarget, cause?: unknown): RuntimeRefused {
  const where = 'port' in to ? `port ${to.port}` : to.unix;
  return new RuntimeRefused(`Nobody in the container accepts connections at ${where}.`, { cause });
}
