import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type Dockerode from 'dockerode';
import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { pause } from '../../../kernel/async/pause.ts';
import { ContainerGone, RuntimeRefused, RuntimeUnavailable } from '../../runtime.errors.ts';

/** The version of the engine's API that every call asks for: the newest of Docker Engine 20.10, which 29 still serves. */
export const API_VERSION = '1.41';
/** The timeout of an ordinary call to the engine, in ms. */
export const CALL_TIMEOUT_MS = 30_000;

const JSON_LINE_CHARACTERS_MAX = 4 * 1024 * 1024;
const unreachable = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'ENOENT',
  'EACCES',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ERR_STREAM_PREMATURE_CLOSE',
]);
/** The messages of an engine that is shutting down or has lost its containerd. The outcome of the call is then unknown. */
const goingDown =
  /ttrpc: closed|transport is closing|connection is closing|code = Unavailable|database not open|containerd\.sock|daemon is shutting down|context canceled|context deadline exceeded/i;

interface EngineError {
  statusCode?: number;
  code?: string;
  json?: { message?: string } | null;
  message?: string;
}

/** Returns the HTTP status of an error of the client library, or of the runtime error that was created from one. */
export function statusOf(error: unknown): number | undefined {
  const { statusCode, cause } = error as EngineError & { cause?: EngineError };
  return statusCode ?? cause?.statusCode;
}

/** Returns the engine's own message, without the prefix of the client library. */
export function messageOf(error: unknown): string {
  const { json, message } = error as EngineError;
  return (json?.message ?? message ?? String(error)).replace(/^\(HTTP code \d+\) .*? - /s, '').trim();
}

/** Converts an error of the client library into a runtime error. The `reason` of dockerode is unreliable, so status and message decide. */
export function portError(error: unknown, handle: string | null): Error {
  if (error instanceof RuntimeUnavailable || error instanceof RuntimeRefused || error instanceof ContainerGone) return error;
  const { statusCode, code, message } = error as EngineError;
  if (statusCode === undefined) {
    const lost = (code !== undefined && unreachable.has(code)) || /socket hang up|aborted/i.test(message ?? '');
    if (lost || (error as Error).name === 'AbortError') return new RuntimeUnavailable(error);
    return error instanceof Error ? error : new Error(String(error));
  }
  const said = messageOf(error);
  const gone = (statusCode === 404 && /no such container/i.test(said)) || /dead or marked for removal/i.test(said);
  if (handle !== null && gone) return new ContainerGone(handle);
  if (statusCode === 503 || goingDown.test(said)) return new RuntimeUnavailable(error);
  return new RuntimeRefused(said, { cause: error });
}

/**
 * Returns whether an engine that went down during a start left a task behind. No start of the container can succeed then, so it has to be
 * created again.
 */
export function hasLeftoverTask(refused: RuntimeRefused): boolean {
  return /\btask [0-9a-f]+: already exists/.test(refused.message);
}

/**
 * Returns whether a container that ran before could not be started because its network is gone. It does not accept another network of that
 * name.
 */
export const hasLostNetwork = (refused: RuntimeRefused): boolean => /\bnetwork [0-9a-f]{64} not found/.test(refused.message);

/** Returns whether a container could not be started because its network has no free port or address. */
export const isBridgeFull = (refused: RuntimeRefused): boolean => /\bexchange full\b|no available (IPv4 )?addresses/i.test(refused.message);

/**
 * Makes one call to the engine, with a timeout of its own (ms), and converts its errors. The timeout does not rely on the client library,
 * whose promise never settles if the connection breaks in the middle of a response.
 */
export async function call<T>(handle: string | null, work: (signal: AbortSignal) => Promise<T>, timeoutMs = CALL_TIMEOUT_MS): Promise<T> {
  return portErrors(handle, () => withTimeout(work, timeoutMs));
}

/** Converts the errors of a call whose time is bounded by its own signal. */
export async function portErrors<T>(handle: string | null, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw portError(error, handle);
  }
}

/** Aborts the signal at the timeout, but not later, so that a stream that was returned in time stays intact. */
export async function withTimeout<T>(work: (signal: AbortSignal) => Promise<T>, timeoutMs: number): Promise<T> {
  const abort = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new RuntimeUnavailable(new Error(`no answer within ${timeoutMs} ms`)));
      abort.abort();
    }, timeoutMs);
  });
  const answer = work(abort.signal);
  answer.catch(() => undefined);
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Throws `RuntimeUnavailable` if the engine accepts no new connections. An engine that is shutting down first stops accepting connections,
 * then ends the work of its callers with errors that blame them, while it still responds on existing connections.
 */
export async function checkTakesConnections(docker: Dockerode): Promise<void> {
  // The types of the client library lack these members.
  const modem = docker.modem as unknown as {
    host?: string;
    port?: number | string;
    getSocketPath(): Promise<string> | undefined;
  };
  const path = await modem.getSocketPath();
  const socket = connect(path === undefined ? { host: modem.host, port: Number(modem.port) } : { path });
  try {
    await once(socket, 'connect', { signal: timeoutSignal(CALL_TIMEOUT_MS) });
    // A socket that ssh forwards accepts connections whatever the engine does.
    if (path !== undefined) await answersPing(socket);
  } catch (error) {
    throw new RuntimeUnavailable(error);
  } finally {
    socket.destroy();
  }
}

/** Makes all calls of the client request one version of the API. Without a version, each engine responds in its newest form. */
export function pinApiVersion(docker: Dockerode): Dockerode {
  (docker.modem as { version?: string }).version = `v${API_VERSION}`;
  return docker;
}

async function answersPing(socket: Socket): Promise<void> {
  socket.write(`GET /v${API_VERSION}/_ping HTTP/1.0\r\n\r\n`);
  const closed = once(socket, 'close').then(() => Promise.reject(new Error('the engine closed the connection')));
  await Promise.race([once(socket, 'data', { signal: timeoutSignal(CALL_TIMEOUT_MS) }), closed]);
}

/** Pings the engine. The client library accepts the signal, though its types do not say so. */
export function pingEngine(docker: Dockerode, abortSignal: AbortSignal): Promise<unknown> {
  return (docker as unknown as { ping(options: { abortSignal: AbortSignal }): Promise<unknown> }).ping({ abortSignal });
}

/**
 * Yields the objects of an engine stream with one JSON object per line. A line that is too long is skipped and reported to `onSkip`;
 * without `onSkip`, it ends the stream with `RuntimeRefused`.
 */
export async function* jsonLines<T>(stream: AsyncIterable<Buffer | string>, onSkip?: () => void): AsyncGenerator<T> {
  const decoder = new TextDecoder();
  let rest = '';
  let isSkipping = false;
  for await (const chunk of stream) {
    rest += typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true });
    const lines = rest.split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (!isSkipping && line.trim() !== '') yield JSON.parse(line) as T;
      isSkipping = false;
    }
    if (rest.length <= JSON_LINE_CHARACTERS_MAX && !isSkipping) continue;
    if (onSkip === undefined) throw new RuntimeRefused('the engine sent a line without an end');
    if (!isSkipping) onSkip();
    isSkipping = true;
    rest = '';
  }
  if (!isSkipping && rest.trim() !== '') yield JSON.parse(rest) as T;
}

/** Runs `work` until it returns a value other than null, at most `tries` times, `pauseMs` apart. Returns null if it never does. */
export async function until<T>(work: () => Promise<T | null>, tries: number, pauseMs: number): Promise<T | null> {
  for (let left = tries; left > 0; left -= 1) {
    const value = await work();
    if (value !== null) return value;
    await pause(pauseMs);
  }
  return null;
}

/** Runs `work` on every item, at most `width` at a time. Returns the results in the order of the items. */
export async function mapBounded<T, R>(items: readonly T[], width: number, work: (item: T) => Promise<R>): Promise<R[]> {
  const answers: R[] = [];
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let at = next++; at < items.length; at = next++) answers[at] = await work(items[at] as T);
  };
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, lane));
  return answers;
}

/** Ignores the errors of calls with one of these statuses. */
export const ignoring =
  (...statuses: number[]) =>
  (error: unknown): undefined => {
    if (!statuses.includes(statusOf(error) ?? 0)) throw error;
  };

/** Ignores the engine's response that nothing had to be changed. */
export async function ignoring304(work: Promise<unknown>): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (statusOf(error) !== 304) throw error;
  }
}
