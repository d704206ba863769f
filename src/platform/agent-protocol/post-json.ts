import { request, type IncomingMessage } from 'node:http';
import { AgentAnsweredError, AgentUnreachable, ReplyTimeout } from './delivery.ts';

const MAX_REPLY_BYTES = 1_024 * 1_024;
const MAX_ERROR_TEXT = 300;

export interface JsonCall {
  host: string;
  port: number;
  path: string;
  body: unknown;
  timeoutMs: number;
  signal: AbortSignal;
}

/**
 * Posts JSON to an agent on a connection of its own and answers what it said with 2xx: parsed, null where the body is empty.
 * Follows no redirect, decompresses nothing, reads at most 1 MiB.
 */
export async function postJson(call: JsonCall): Promise<unknown> {
  const { status, text } = await exchange(call);
  if (status >= 300 && status < 400) throw new AgentAnsweredError(status, 'redirects are not followed');
  if (status < 200 || status >= 400) throw new AgentAnsweredError(status, errorText(text));
  if (text.trim() === '') return null;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new AgentAnsweredError(status, `no JSON: ${shortened(text)}`);
  }
}

function exchange(call: JsonCall): Promise<{ status: number; text: string }> {
  const { host, port, path, timeoutMs, signal } = call;
  signal.throwIfAborted();
  const body = Buffer.from(JSON.stringify(call.body));
  return new Promise((resolve, reject) => {
    const asking = request({
      host,
      port,
      path,
      method: 'POST',
      agent: false,
      headers: {
        'content-type': 'application/json',
        'content-length': body.length,
        accept: 'application/json',
        'accept-encoding': 'identity',
      },
    });
    const settle = (outcome: () => void) => {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      outcome();
      asking.destroy();
    };
    const timer = setTimeout(() => settle(() => reject(new ReplyTimeout(timeoutMs))), timeoutMs);
    const onAbort = () => settle(() => reject(signal.reason as Error));
    signal.addEventListener('abort', onAbort);
    asking.on('error', (error) => settle(() => reject(new AgentUnreachable(error))));
    asking.on('response', (answer) => {
      read(answer).then(
        (text) => settle(() => resolve({ status: answer.statusCode ?? 0, text })),
        (error: unknown) => settle(() => reject(error)),
      );
    });
    asking.end(body);
  });
}

function read(answer: IncomingMessage): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    answer.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > MAX_REPLY_BYTES) reject(new AgentAnsweredError(answer.statusCode ?? 0, 'the reply is larger than 1 MiB'));
      else chunks.push(chunk);
    });
    answer.on('end', () => resolve(Buffer.concat(chunks).toString('utf8')));
    answer.on('error', (error) => reject(new AgentUnreachable(error)));
    answer.on('close', () => reject(new AgentUnreachable(new Error('the connection closed within the reply'))));
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
