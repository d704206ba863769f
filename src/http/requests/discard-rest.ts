import type { IncomingMessage } from 'node:http';

/**
 * The most bytes of a refused body that are read and discarded before the response, and the time for it in ms: many callers read the
 * response only after they have sent everything.
 */
const DISCARDED_BYTES_MAX = 16_777_216;
const DISCARD_MS = 2_000;

/** Reads the rest of a body that is not wanted, as far as its caller may require that to receive the response. */
export async function discardRest(request: IncomingMessage): Promise<void> {
  if (request.readableEnded || request.destroyed) return;
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, DISCARD_MS);
    let size = 0;
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > DISCARDED_BYTES_MAX) resolve();
    });
    for (const event of ['end', 'close', 'error']) request.once(event, resolve);
    request.once('close', () => clearTimeout(timer));
    request.resume();
  });
}
