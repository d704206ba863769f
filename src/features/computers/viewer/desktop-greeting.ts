import { once } from 'node:events';
import type { Duplex } from 'node:stream';

import { DesktopUnreachable } from '../../../desktop/rfb/desktop-errors.ts';
import { greet } from '../../../desktop/rfb/handshake.ts';

/**
 * Performs the handshake with a desktop up to `CLIENT_INIT`, after which it starts to send. The relay sends that message. Throws
 * `DesktopUnreachable`, and the signal's reason.
 */
export function greetDesktop(desktop: Duplex, signal: AbortSignal): Promise<void> {
  return greet((bytes) => readExactly(desktop, bytes, signal), desktop);
}

/** Reads exactly that many bytes, and leaves the rest in the stream. */
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
