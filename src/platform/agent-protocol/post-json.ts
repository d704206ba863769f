import { request, type ClientRequest, type IncomingMessage } from 'node:http';
import { AgentAnsweredError, AgentUnreachable, ReplyTimeout, type ExchangeRoom } from './delivery.ts';

const MAX_REPLY_BYTES = 1_024 * 1_024;
/** What of a reply is read before there is room for all of it. */
const READ_AHEAD_BYTES = 16 * 1_024;
const MAX_ERROR_TEXT = 300;

export interface JsonCall {
  host: string;
  port: number;
  path: string;
  /** Made by `jsonBody`. */
  body: Buffer;
  /** For the whole exchange. */
  timeoutMs: number;
  signal: AbortSignal;
  room: ExchangeRoom;
}

export function jsonBody(value: object): Buffer {
  return Buffer.from(JSON.stringify(value));
}

/**
 * Posts JSON to an agent on a connection of its own and answers what it said with 2xx: parsed, null where the body is empty.
 * Follows no redirect, decompresses nothing, reads at most 1 MiB. Nothing here refers to the request's body once it is sent.
 */
export function postJson(call: JsonCall): Promise<unknown> {
  return exchange(call).then(parsed);
}

interface Reply {
  status: number;
  text: string;
}

function parsed({ status, text }: Reply): unknown {
  if (status >= 300 && status < 400) throw new AgentAnsweredError(status, 'redirects are not followed');
  if (status < 200 || status >= 400) throw new AgentAnsweredError(status, errorText(text));
  if (text.trim() === '') return null;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new AgentAnsweredError(status, `no JSON: ${shortened(text)}`);
  }
}

function exchange({ host, port, path, body, timeoutMs, signal, room }: JsonCall): Promise<Reply> {
  if (signal.aborted) return Promise.reject(signal.reason as Error);
  const headers = {
    'content-type': 'application/json',
    'content-length': body.length,
    accept: 'application/json',
    'accept-encoding': 'identity',
  };
  const asking = request({ host, port, path, method: 'POST', agent: false, headers });
  const replied = replyTo(asking, timeoutMs, signal, room);
  asking.end(body);
  return replied;
}

function replyTo(asking: ClientRequest, timeoutMs: number, signal: AbortSignal, room: ExchangeRoom): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const settle = (outcome: () => void) => {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      room.sent();
      outcome();
      asking.destroy();
    };
    const timer = setTimeout(() => settle(() => reject(new ReplyTimeout(timeoutMs))), timeoutMs);
    const onAbort = () => settle(() => reject(signal.reason as Error));
    signal.addEventListener('abort', onAbort);
    asking.on('finish', () => room.sent());
    asking.on('error', (error) => settle(() => reject(new AgentUnreachable(error))));
    asking.on('response', (answer) => {
      read(asking, answer, room).then(
        (text) => settle(() => resolve({ status: answer.statusCode ?? 0, text })),
        (error: unknown) => settle(() => reject(error)),
      );
    });
  });
}

function read(asking: ClientRequest, answer: IncomingMessage, room: ExchangeRoom): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    let hasRoom = false;
    const makeRoom = () => {
      hasRoom = true;
      answer.pause();
      const bytes = Math.min(Number(answer.headers['content-length'] ?? MAX_REPLY_BYTES), MAX_REPLY_BYTES);
      // Whoever waits for room holds none: the request has to be gone first.
      whenSent(asking)
        .then(() => room.forReply(bytes))
        .then(() => answer.resume(), reject);
    };
    answer.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > MAX_REPLY_BYTES) return reject(new AgentAnsweredError(answer.statusCode ?? 0, 'the reply is larger than 1 MiB'));
      chunks.push(chunk);
      if (size > READ_AHEAD_BYTES && !hasRoom) makeRoom();
    });
    answer.on('end', () => resolve(Buffer.concat(chunks).toString('utf8')));
    answer.on('error', (error) => reject(new AgentUnreachable(error)));
    answer.on('close', () => reject(new AgentUnreachable(new Error('the connection closed within the reply'))));
  });
}

function whenSent(asking: ClientRequest): Promise<void> {
  return new Promise((resolve) => {
    if (asking.writableFinished) resolve();
    else asking.once('finish', resolve);
  });
}

/** What an error body says, in the shapes that agents use. */
function errorText(body: string): string {
  try {
    const { error, detail, message } = JSON.parse(body) as { error?: { message?: unknown }; detail?: unknown; message?: unknown };
    const said = [error?.message, error, detail, message].find((text) => typeof text === 'string');
    if (said !== undefined) return shortened(said);
  } catch {
    // Then the text as it is.
  }
  return shortened(body) || 'no text';
}

function shortened(text: string): string {
  return wellFormed(text.slice(0, MAX_ERROR_TEXT)).replace(/\s+/g, ' ').trim();
}

/** Containers print NUL and halves of characters, which PostgreSQL refuses. */
export function wellFormed(text: string): string {
  return text.replace(/\0|\p{Surrogate}/gu, '\uFFFD');
}
