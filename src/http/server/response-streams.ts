import { Injectable } from '@nestjs/common';

import type { RequestContext } from './request-context.ts';
import { OpenStreams } from '../limits/open-streams.ts';

export const NDJSON = 'application/x-ndjson';
export const EVENT_STREAM = 'text/event-stream';

export interface ServerSentEvent {
  /** The id with which a reader continues after a lost connection; absent if it can't continue. */
  id?: string;
  /** The name of the event; absent stands for `message`. */
  event?: string;
  data: unknown;
}

/** The body of a response that is sent as it is produced, no faster than the caller reads. A route returns it like any other body. */
export type Streamed = AsyncGenerator<string>;

/** The time without data after which a comment is sent, so that proxies do not end the connection, in ms. */
const KEEP_ALIVE_MS = 15_000;

/** Makes bodies that are streamed, and bounds their number: methods that open one throw `rate_limited` if the account, or the process, has too many. */
@Injectable()
export class ResponseStreams {
  constructor(private readonly openStreams: OpenStreams) {}

  /** Streams the items, one per line, until they end or the caller disconnects. */
  async ndjson(call: RequestContext, open: () => Promise<AsyncIterable<unknown>>): Promise<Streamed> {
    this.openStreams.add(call);
    const items = await open();
    call.setHeader('content-type', `${NDJSON}; charset=utf-8`);
    call.setHeader('cache-control', 'no-store');
    return lines(items);
  }

  /** Streams the pieces of a text until they end or the caller disconnects. */
  async text(call: RequestContext, open: () => Promise<Streamed>): Promise<Streamed> {
    this.openStreams.add(call);
    const pieces = await open();
    call.setHeader('content-type', 'text/plain; charset=utf-8');
    return pieces;
  }

  /** Streams the events until they end or the caller disconnects, when the signal passed to `open` aborts. */
  async events(call: RequestContext, open: (signal: AbortSignal) => Promise<AsyncIterable<ServerSentEvent>>): Promise<Streamed> {
    this.openStreams.add(call);
    const gone = call.goneSignal();
    const events = await open(gone);
    setEventStreamHeaders(call);
    return frames(events, gone);
  }

  /** Streams data that is an event stream in UTF-8 already. Its opener has counted the stream, and ends it when the caller disconnects. */
  relayed(call: RequestContext, pieces: AsyncIterable<Uint8Array>): Streamed {
    setEventStreamHeaders(call);
    return texts(pieces);
  }
}

function setEventStreamHeaders(call: RequestContext): void {
  call.setHeader('content-type', `${EVENT_STREAM}; charset=utf-8`);
  call.setHeader('cache-control', 'no-cache, no-transform');
  call.setHeader('x-accel-buffering', 'no');
}

async function* texts(pieces: AsyncIterable<Uint8Array>): Streamed {
  const decoder = new TextDecoder();
  for await (const piece of pieces) yield decoder.decode(piece, { stream: true });
}

async function* lines(items: AsyncIterable<unknown>): Streamed {
  for await (const item of items) yield `${JSON.stringify(item)}\n`;
}

async function* frames(events: AsyncIterable<ServerSentEvent>, signal: AbortSignal): Streamed {
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
      yield frameOf(result.value);
      next = source.next();
    }
  } finally {
    // This is not awaited, because a source that waits for its next event is ended by the signal.
    void source.return?.(undefined);
  }
}

function frameOf({ id, event, data }: ServerSentEvent): string {
  const head = (id === undefined ? '' : `id: ${id}\n`) + (event === undefined ? '' : `event: ${event}\n`);
  return `${head}data: ${JSON.stringify(data)}\n\n`;
}

/** Returns the result, or null after a time without one or once the caller has disconnected. */
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
