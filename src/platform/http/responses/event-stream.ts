import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';

export interface ServerSentEvent {
  id: string;
  data: unknown;
}

/** The silence after which a comment is sent, so that proxies do not end the connection, ms. */
const KEEP_ALIVE_MS = 15_000;

export function wantsEventStream(request: FastifyRequest): boolean {
  return (request.headers.accept ?? '').includes('text/event-stream');
}

/**
 * Responds with `text/event-stream` until the source ends or the caller disconnects, when the signal passed to `open` aborts. The source is
 * read no faster than the caller reads.
 */
export async function sendEventStream(
  reply: FastifyReply,
  open: (signal: AbortSignal) => Promise<AsyncIterable<ServerSentEvent>>,
): Promise<void> {
  const gone = new AbortController();
  reply.raw.once('close', () => gone.abort());
  if (reply.raw.destroyed) gone.abort();
  const events = await open(gone.signal);
  void reply
    .header('content-type', 'text/event-stream; charset=utf-8')
    .header('cache-control', 'no-cache, no-transform')
    .header('x-accel-buffering', 'no');
  await reply.send(Readable.from(frames(events, gone.signal)));
}

async function* frames(events: AsyncIterable<ServerSentEvent>, signal: AbortSignal): AsyncGenerator<string> {
  yield ': follow\n\n';
  const source = events[Symbol.asyncIterator]();
  try {
    let next = source.next();
    while (!signal.aborted) {
      const result = await orSilence(next, signal);
      if (signal.aborted) return;
      if (result === null) {
        yield ': still here\n\n';
        continue;
      }
      if (result.done === true) return;
      yield `id: ${result.value.id}\ndata: ${JSON.stringify(result.value.data)}\n\n`;
      next = source.next();
    }
  } finally {
    // This is not awaited: a source that waits for its next event ends by the signal.
    void source.return?.(undefined);
  }
}

/** Returns the result, or null after a silence or once the caller has disconnected. */
async function orSilence<T>(next: Promise<T>, signal: AbortSignal): Promise<T | null> {
  let end = () => {};
  const silence = new Promise<null>((resolve) => (end = () => resolve(null)));
  const timer = setTimeout(end, KEEP_ALIVE_MS);
  signal.addEventListener('abort', end);
  try {
    return await Promise.race([next, silence]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', end);
  }
}
