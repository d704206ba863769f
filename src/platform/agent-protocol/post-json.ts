import { request, type ClientRequest, type IncomingMessage } from 'node:http';
import { connectToAgent } from './agent-connection.ts';
import { AgentErrorResponse, AgentBrokeConnection, AgentUnreachable, ReplyTimeout, type ExchangeMemory } from './delivery.ts';

const REPLY_BYTES_MAX = 1_024 * 1_024;
/** The bytes of a reply that are read before there is room for all of it. */
const READ_AHEAD_BYTES = 16 * 1_024;
const ERROR_TEXT_MAX = 300;
/** The bound on a response's headers, and on a chunk's extensions and trailers, in bytes. */
const HEADER_BYTES_MAX = 16 * 1_024;
/** The number of informational responses such as `100 Continue` at most. */
const INFORMATIONAL_MAX = 16;
/** The number of pieces of a reply at most. A piece costs about the same however few bytes it has. */
const PIECES_MAX = 20_000;
/** The number of pieces that are kept separately, since each takes more memory than its bytes. */
const APART = 256;

export interface JsonCall {
  host: string;
  port: number;
  path: string;
  /** The body, made by `jsonBody`. */
  body: Buffer;
  /** The timeout of the whole exchange. */
  timeoutMs: number;
  signal: AbortSignal;
  memory: ExchangeMemory;
}

export function jsonBody(value: object): Buffer {
  return Buffer.from(JSON.stringify(value));
}

/**
 * Posts JSON to an agent on a connection of its own and returns the parsed body of a 2xx response, null if it is empty. It follows no
 * redirect, decompresses nothing, and reads at most 1 MiB in 20,000 pieces, 16 KiB of headers and 16 informational responses. It does not
 * keep the request's body in memory once that is sent.
 */
export function postJson(call: JsonCall): Promise<unknown> {
  return exchange(call).then(parsed);
}

interface Reply {
  status: number;
  text: string;
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

function exchange({ host, port, path, body, timeoutMs, signal, memory }: JsonCall): Promise<Reply> {
  if (signal.aborted) return Promise.reject(signal.reason as Error);
  const headers = {
    'content-type': 'application/json',
    'content-length': body.length,
    accept: 'application/json',
    'accept-encoding': 'identity',
  };
  const createConnection = () => connectToAgent({ host, port });
  const asking = request({ host, port, path, method: 'POST', createConnection, headers, maxHeaderSize: HEADER_BYTES_MAX });
  const replied = replyTo(asking, timeoutMs, signal, memory);
  asking.end(body);
  return replied;
}

function replyTo(asking: ClientRequest, timeoutMs: number, signal: AbortSignal, memory: ExchangeMemory): Promise<Reply> {
  return new Promise((resolve, reject) => {
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
    const fail = (error: Error) => settle(() => reject(asking.writableFinished ? brokenOff(error) : new AgentUnreachable(error)));
    asking.on('error', fail);
    const onClose = () => fail(new Error('the connection closed before an answer'));
    asking.on('close', onClose);
    onTooManyInformational(asking, () => settle(() => reject(new AgentBrokeConnection('sent one informational answer after the other'))));
    asking.on('response', (answer) => {
      // From here on the events of the response tell how it ends.
      asking.off('close', onClose);
      read(asking, answer, memory).then(
        (text) => settle(() => resolve({ status: answer.statusCode ?? 0, text })),
        (error: unknown) => settle(() => reject(error)),
      );
    });
  });
}

/** Calls `end` after too many informational responses, of which Node would read any number. */
export function onTooManyInformational(asking: ClientRequest, end: () => void): void {
  let count = 0;
  asking.on('information', () => {
    count += 1;
    if (count === INFORMATIONAL_MAX + 1) end();
  });
}

function read(asking: ClientRequest, answer: IncomingMessage, memory: ExchangeMemory): Promise<string> {
  return new Promise((resolve, reject) => {
    let chunks: Buffer[] = [];
    let size = 0;
    let pieces = 0;
    let hasRoom = false;
    const makeRoom = () => {
      hasRoom = true;
      answer.pause();
      const bytes = Math.min(Number(answer.headers['content-length'] ?? REPLY_BYTES_MAX), REPLY_BYTES_MAX);
      // An exchange that waits for memory must hold none, so the request has to be sent first.
      whenSent(asking)
        .then(() => memory.reserveReply(bytes))
        .then(() => answer.resume(), reject);
    };
    const take = (chunk: Buffer) => {
      size += chunk.length;
      pieces += 1;
      if (size > REPLY_BYTES_MAX) return refuse(new AgentErrorResponse(answer.statusCode ?? 0, 'the reply is larger than 1 MiB'));
      if (pieces > PIECES_MAX) return refuse(new AgentBrokeConnection('sent its reply in too many pieces'));
      chunks.push(chunk);
      if (chunks.length > APART) chunks = [Buffer.concat(chunks)];
      if (size > READ_AHEAD_BYTES && !hasRoom) makeRoom();
    };
    // The bytes behind are not parsed any more.
    const refuse = (error: Error) => {
      reject(error);
      asking.destroy();
    };
    answer.on('data', take);
    const onClose = () => reject(brokenOff(new Error('the connection closed within the reply')));
    answer.on('end', () => {
      answer.off('close', onClose);
      resolve(Buffer.concat(chunks).toString('utf8'));
    });
    answer.on('error', (error) => reject(brokenOff(error)));
    answer.on('close', onClose);
  });
}

function brokenOff(error: NodeJS.ErrnoException): AgentBrokeConnection {
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

/** Returns the message in an error body, in the shapes that agents use. */
function errorText(body: string): string {
  try {
    const { error, detail, message } = JSON.parse(body) as { error?: { message?: unknown }; detail?: unknown; message?: unknown };
    const said = [error?.message, error, detail, message].find((text) => typeof text === 'string');
    if (said !== undefined) return shortened(said);
  } catch {
    // If it is no JSON, the text itself is used.
  }
  return shortened(body) || 'no text';
}

function shortened(text: string): string {
  return wellFormed(text.slice(0, ERROR_TEXT_MAX)).replace(/\s+/g, ' ').trim();
}

/** Replaces NUL and halves of surrogate pairs, which containers print and PostgreSQL refuses. */
export function wellFormed(text: string): string {
  return text.replace(/\0|\p{Surrogate}/gu, '\uFFFD');
}
