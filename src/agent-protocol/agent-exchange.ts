/*
 * One HTTP request to an agent and its response, for all protocols of agents. An agent is a program of a stranger, which may send anything.
 *
 * It owns the bounds on a response, and the release of memory while an exchange runs. It does not own connections (agent-connection-pool.ts),
 * the meaning of bodies (the protocols), retries (the caller), or how much memory there is (`ExchangeMemory`).
 *
 * Invariants:
 * X1. An exchange settles exactly once: with a reply, an error, `ReplyTimeout`, or the reason of its signal. The request is destroyed then.
 * X2. Everything that an agent sends is bounded: headers, informational responses, bytes, pieces, events and lines.
 * X3. The memory of the request is released as soon as it is sent. Beyond READ_AHEAD_BYTES_MAX a reply is read only after memory for all of it
 *     was reserved, and an exchange that waits for that holds none, so that exchanges can't block each other.
 * X4. An error says whether the agent can have received the message: `AgentUnreachable` only if the request was not sent completely. It names
 *     the request, without its query and its body.
 * X5. No redirect is followed, and nothing is decompressed.
 */

import type { ClientRequest, IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';

import { onTooManyInformational } from './informational-responses.ts';
import { agentConnectionPool, requestTo } from './agent-connection-pool.ts';
import { AgentNotLocated } from './agent-endpoint.ts';
import { AgentErrorResponse, AgentBrokeConnection, AgentFailure, AgentUnreachable, ReplyTimeout, type Exchange } from './protocol.ts';
import { EventStreamParser, type ReceivedEvent } from './event-stream-parser.ts';
import { REPLY_BYTES_MAX, shortened } from './reply-text.ts';
import { requestName } from './request-name.ts';

/** X3: the bytes of a reply that are read before memory for all of it is reserved. */
const READ_AHEAD_BYTES_MAX = 16 * 1_024;
/** The number of characters of a request's body that are encoded and written in one iteration of the event loop. */
const PIECE_CHARACTERS = 256 * 1_024;
/** The most bytes of a response's headers, and of a chunk's extensions and trailers. */
const HEADER_BYTES_MAX = 16 * 1_024;
/** The most pieces of a reply. A piece costs about the same however small it is. */
const PIECES_MAX = 20_000;
/** Pieces are joined beyond this number, since each takes more memory than its bytes. */
const SEPARATE_CHUNKS_MAX = 256;
/** The bounds on a reply that is streamed as events. Agents send much more data for each word than the word itself. */
const STREAM_BYTES_MAX = 64 * 1_024 * 1_024;
const STREAM_PIECES_MAX = 200_000;
const STREAM_LINES_MAX = 300_000;
const EVENT_STREAM = 'text/event-stream';

/** One request to an agent. */
export interface AgentCall extends Exchange {
  path: string;
  /** The body, in JSON. A call without a body is a GET. */
  body?: string;
  headers?: Record<string, string>;
}

/** Returns what the parsed body of a response means. The errors that it throws name the request. */
type ReadAnswer<T> = (answer: unknown) => T | Promise<T>;

/**
 * Calls an agent and returns what `read` makes of the parsed body of a 2xx response; of null if that is empty. At most 1 MiB in 20,000 pieces,
 * 16 KiB of headers and 16 informational responses are read. The body of the request is not kept in memory after it is sent.
 */
export function callForJson<T>(call: AgentCall, read: ReadAnswer<T>): Promise<T> {
  return exchange(call, 'application/json', (reply) => read(parsed(reply)));
}

/** Receives the events of a reply. Returns true once the rest of the stream is not needed. An error that it throws ends the exchange. */
export type EventListener = (event: ReceivedEvent) => boolean;

/**
 * Calls an agent like `callForJson`, and passes on the events of the response as they arrive: at most 64 MiB in 200,000 pieces and 300,000
 * lines, and 1 MiB for each event. `read` gets the parsed body if the response is not an event stream, and undefined after a stream.
 */
export function callForEvents<T>(call: AgentCall, onEvent: EventListener, read: ReadAnswer<T>): Promise<T> {
  return exchange(call, `${EVENT_STREAM}, application/json`, (reply) => read(reply.isStream ? undefined : parsed(reply)), onEvent);
}

interface Reply {
  status: number;
  text: string;
  isStream: boolean;
}

function parsed({ status, text }: Reply): unknown {
  if (status >= 300 && status < 400) throw new AgentErrorResponse(status, 'redirects are not followed');
  if (status < 200 || status >= 400) throw new AgentErrorResponse(status, errorText(text));
  if (text.trim() === '') return null;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new AgentErrorResponse(status, `no JSON: ${shortened(text)}`);
  }
}

function exchange<T>(
  { body, ...call }: AgentCall,
  accept: string,
  read: (reply: Reply) => T | Promise<T>,
  onEvent?: EventListener,
): Promise<T> {
  const { endpoint, path, signal } = call;
  if (signal.aborted) return Promise.reject(signal.reason as Error);
  const headers = {
    ...(body === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
    accept,
    'accept-encoding': 'identity',
    ...call.headers,
  };
  const method = body === undefined ? 'GET' : 'POST';
  const asking = requestTo(endpoint, { path, method, headers, maxHeaderSize: HEADER_BYTES_MAX });
  let port: number | undefined;
  asking.once('socket', (socket) => (port = agentConnectionPool.programPortOf(socket)));
  const replied = replyTo(asking, call, onEvent).then(read);
  send(asking, body);
  return replied.catch((error: unknown) => {
    if (error instanceof AgentFailure) error.nameRequest(requestName(method, path, port));
    throw error;
  });
}

/**
 * Sends the body. A large one is sent in pieces, since a megabyte of control characters is 6 MB of JSON, which would block the event loop.
 */
function send(asking: ClientRequest, body: string | undefined): void {
  if (body === undefined || body.length <= PIECE_CHARACTERS) asking.end(body);
  else Readable.from(piecesOf(body), { highWaterMark: 1 }).pipe(asking);
}

function* piecesOf(text: string): Generator<Buffer> {
  for (let from = 0, to = 0; from < text.length; from = to) {
    to = Math.min(from + PIECE_CHARACTERS, text.length);
    // A piece does not end within a surrogate pair.
    if (to < text.length && !text.slice(to - 1, to).isWellFormed()) to -= 1;
    yield Buffer.from(text.slice(from, to));
  }
}

function replyTo(asking: ClientRequest, { timeoutMs, signal, memory }: Exchange, onEvent?: EventListener): Promise<Reply> {
  return new Promise((resolve, reject) => {
    // X1
    const settle = (outcome: () => void) => {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      memory.releaseRequest();
      outcome();
      asking.destroy();
    };
    const timer = setTimeout(() => settle(() => reject(new ReplyTimeout(timeoutMs))), timeoutMs);
    const onAbort = () => settle(() => reject(signal.reason as Error));
    signal.addEventListener('abort', onAbort);
    asking.on('finish', () => memory.releaseRequest());
    // X4
    const fail = (error: Error) => settle(() => reject(asking.writableFinished ? toBrokenConnection(error) : unreachable(error)));
    asking.on('error', fail);
    const onClose = () => fail(new Error('the connection closed before an answer'));
    asking.on('close', onClose);
    onTooManyInformational(asking, () => settle(() => reject(new AgentBrokeConnection('sent one informational answer after the other'))));
    asking.on('response', (answer) => {
      // From here on, the events of the response determine the outcome.
      asking.off('close', onClose);
      const status = answer.statusCode ?? 0;
      const isStream = onEvent !== undefined && isEventStream(answer);
      const body = isStream ? new EventsBody(onEvent) : new TextBody(status);
      readBody(asking, answer, memory, body).then(
        (text) => settle(() => resolve({ status, text, isStream })),
        (error: unknown) => settle(() => reject(error)),
      );
    });
  });
}

function unreachable(error: Error): unknown {
  return error instanceof AgentNotLocated ? error.cause : new AgentUnreachable(error);
}

function isEventStream({ statusCode = 0, headers }: IncomingMessage): boolean {
  return statusCode >= 200 && statusCode < 300 && (headers['content-type'] ?? '').toLowerCase().startsWith(EVENT_STREAM);
}

/** Reads the body of a response. */
interface ResponseBody {
  readonly bytesMax: number;
  readonly piecesMax: number;
  /** Returns the error for a larger body. */
  tooLarge(): Error;
  /** Adds the next piece. Returns true once the rest is not needed. Throws for a body that can't be used. */
  push(chunk: Buffer): boolean;
  /** Returns the collected text. */
  text(): string;
}

class TextBody implements ResponseBody {
  readonly bytesMax = REPLY_BYTES_MAX;
  readonly piecesMax = PIECES_MAX;
  private chunks: Buffer[] = [];

  constructor(private readonly status: number) {}

  tooLarge(): Error {
    return new AgentErrorResponse(this.status, 'the reply is larger than 1 MiB');
  }

  push(chunk: Buffer): boolean {
    this.chunks.push(chunk);
    if (this.chunks.length > SEPARATE_CHUNKS_MAX) this.chunks = [Buffer.concat(this.chunks)];
    return false;
  }

  text(): string {
    return Buffer.concat(this.chunks).toString('utf8');
  }
}

class EventsBody implements ResponseBody {
  readonly bytesMax = STREAM_BYTES_MAX;
  readonly piecesMax = STREAM_PIECES_MAX;
  private isOver = false;
  private readonly parser: EventStreamParser;

  constructor(onEvent: EventListener) {
    this.parser = new EventStreamParser(
      REPLY_BYTES_MAX,
      (event) => {
        if (!this.isOver) this.isOver = onEvent(event);
      },
      () => {
        throw new AgentBrokeConnection('sent an event of more than 1 MiB');
      },
    );
  }

  tooLarge(): Error {
    return new AgentBrokeConnection('streamed more than 64 MiB');
  }

  push(chunk: Buffer): boolean {
    this.parser.push(chunk);
    if (this.parser.lines > STREAM_LINES_MAX) throw new AgentBrokeConnection('streamed its reply in too many lines');
    return this.isOver;
  }

  text(): string {
    return '';
  }
}

function readBody(asking: ClientRequest, answer: IncomingMessage, memory: Exchange['memory'], body: ResponseBody): Promise<string> {
  return new Promise((resolve, reject) => {
    let size = 0;
    let pieces = 0;
    let hasRoom = false;
    const makeRoom = () => {
      hasRoom = true;
      answer.pause();
      const bytes = Math.min(Number(answer.headers['content-length'] ?? REPLY_BYTES_MAX), REPLY_BYTES_MAX);
      // X3
      whenSent(asking)
        .then(() => memory.reserveReply(bytes))
        .then(() => answer.resume(), reject);
    };
    // X2: the bytes that follow are not parsed any more.
    const refuse = (error: unknown) => {
      reject(error);
      asking.destroy();
    };
    const end = () => {
      answer.off('close', onClose);
      resolve(body.text());
    };
    answer.on('data', (chunk: Buffer) => {
      size += chunk.length;
      pieces += 1;
      if (size > body.bytesMax) return refuse(body.tooLarge());
      if (pieces > body.piecesMax) return refuse(new AgentBrokeConnection('sent its reply in too many pieces'));
      try {
        if (body.push(chunk)) return end();
      } catch (error) {
        return refuse(error);
      }
      if (size > READ_AHEAD_BYTES_MAX && !hasRoom) makeRoom();
    });
    const onClose = () => reject(toBrokenConnection(new Error('the connection closed within the reply')));
    answer.on('end', end);
    answer.on('error', (error) => reject(toBrokenConnection(error)));
    answer.on('close', onClose);
  });
}

function toBrokenConnection(error: NodeJS.ErrnoException): AgentBrokeConnection {
  if (error.code === 'HPE_HEADER_OVERFLOW') return new AgentBrokeConnection(`sent more than ${HEADER_BYTES_MAX} bytes of headers`, error);
  if (error.code?.startsWith('HPE_')) return new AgentBrokeConnection('answered with something that is no HTTP', error);
  return new AgentBrokeConnection('broke the connection off before its answer was complete', error);
}

function whenSent(asking: ClientRequest): Promise<void> {
  return new Promise((resolve) => {
    if (asking.writableFinished) resolve();
    else asking.once('finish', resolve);
  });
}

/** Returns the message in an error body, in the formats that agents use. */
function errorText(body: string): string {
  try {
    const { error, detail, message } = JSON.parse(body) as { error?: { message?: unknown }; detail?: unknown; message?: unknown };
    const said = [error?.message, error, detail, message].find((text) => typeof text === 'string');
    if (said !== undefined) return shortened(said);
  } catch {
    // If it is not JSON, the text itself is used.
  }
  return shortened(body) || 'no text';
}
