import { once } from 'node:events';
import type { Duplex } from 'node:stream';

import { DesktopUnreachable } from '../rfb/desktop-errors.ts';

const VERSION = 'RFB 003.008\n';
const SECURITY_NONE = 1;
/** The last message of the greeting: the desktop is shared with its other viewers. */
export const CLIENT_INIT = Buffer.of(1);

/**
 * Greets a desktop, up to the message upon which it begins to send: `CLIENT_INIT`, which whoever passes its bytes on sends. Throws
 * `DesktopUnreachable`, and the signal's reason.
 */
export async function greetDesktop(desktop: Duplex, signal: AbortSignal): Promise<void> {
  const version = (await readExactly(desktop, VERSION.length, signal)).toString('latin1');
  if (!/^RFB 003\.\d{3}\n$/.test(version) || version < VERSION) throw new DesktopUnreachable('it speaks no RFB 3.8');
  desktop.write(VERSION);
  const [count = 0] = await readExactly(desktop, 1, signal);
  const types = count === 0 ? Buffer.alloc(0) : await readExactly(desktop, count, signal);
  if (!types.includes(SECURITY_NONE)) throw new DesktopUnreachable('it wants a password, or refuses connections');
  desktop.write(Buffer.of(SECURITY_NONE));
  const result = await readExactly(desktop, 4, signal);
  if (result.readUInt32BE() !== 0) throw new DesktopUnreachable('it refused the connection');
}

/** Reads so many bytes, and leaves what follows them in the stream. */
async function readExactly(stream: Duplex, length: number, signal: AbortSignal): Promise<Buffer> {
  for (;;) {
    const piece = stream.read(length) as Buffer | null;
    if (piece !== null && piece.length === length) return piece;
    if (piece !== null || stream.readableEnded || stream.destroyed) throw new DesktopUnreachable('it ended the connection');
    const over = new AbortController();
    const options = { signal: AbortSignal.any([signal, over.signal]) };
    const ends = ['readable', 'end', 'close'].map((event) => once(stream, event, options));
    try {
      await Promise.race(ends);
    } catch (error) {
      signal.throwIfAborted();
      throw new DesktopUnreachable((error as Error).message);
    } finally {
      over.abort();
      for (const each of ends) each.catch(() => undefined);
    }
  }
}
