import type Dockerode from 'dockerode';
import { ContainerGone, RuntimeRefused, RuntimeUnavailable } from '../runtime.ts';

/** Milliseconds that an ordinary call to the engine may take. */
export const callTimeoutMs = 30_000;

const longestJsonLine = 4 * 1024 * 1024;
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
/** What an engine says while it goes down or has lost its containerd: nothing is known about the outcome then. */
const goingDown =
  /ttrpc: closed|transport is closing|connection is closing|code = Unavailable|database not open|containerd\.sock|daemon is shutting down|context canceled|context deadline exceeded/i;

interface EngineError {
  statusCode?: number;
  code?: string;
  json?: { message?: string } | null;
  message?: string;
}

/** The HTTP status behind an error of the client library, or behind the port's error made of one. */
export function statusOf(error: unknown): number | undefined {
  const { statusCode, cause } = error as EngineError & { cause?: EngineError };
  return statusCode ?? cause?.statusCode;
}

/** The engine's own words, without what the client library puts before them. */
export function messageOf(error: unknown): string {
  const { json, message } = error as EngineError;
  return (json?.message ?? message ?? String(error)).replace(/^\(HTTP code \d+\) .*? - /s, '').trim();
}

/** An error of the client library as the port's own class. `reason` of dockerode is unreliable, so status and text decide. */
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

/** An engine that went down within a start left a task behind that no start of the container gets past: it has to be made anew. */
export function hasLeftoverTask(refused: RuntimeRefused): boolean {
  return /\btask [0-9a-f]+: already exists/.test(refused.message);
}

/**
 * One call to the engine, with a time-out of its own (milliseconds) and the port's errors. The time-out doesn't lean on the client
 * library: where a connection breaks in the middle of an answer, the library's promise never settles.
 */
export async function call<T>(handle: string | null, work: (signal: AbortSignal) => Promise<T>, timeoutMs = callTimeoutMs): Promise<T> {
  return portErrors(handle, () => withTimeout(work, timeoutMs));
}

/** The port's errors for a call whose time the given signal bounds. */
export async function portErrors<T>(handle: string | null, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw portError(error, handle);
  }
}

/** The signal is aborted at the time-out and not afterwards, so a stream that came in time stays whole. */
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

/** The client library takes the signal, though its types do not say so. */
export function pingEngine(docker: Dockerode, abortSignal: AbortSignal): Promise<unknown> {
  return (docker as unknown as { ping(options: { abortSignal: AbortSignal }): Promise<unknown> }).ping({ abortSignal });
}

/** The engine's streams of JSON objects, a line each. */
export async function* jsonLines<T>(stream: AsyncIterable<Buffer | string>): AsyncGenerator<T> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of stream) {
    rest += typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true });
    if (rest.length > longestJsonLine) throw new RuntimeRefused('the engine sent a line without an end');
    const lines = rest.split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) if (line.trim() !== '') yield JSON.parse(line) as T;
  }
  if (rest.trim() !== '') yield JSON.parse(rest) as T;
}

/** Runs `work` until it gives a value, at most `tries` times, `pauseMs` apart; null where it never did. */
export async function until<T>(work: () => Promise<T | null>, tries: number, pauseMs: number): Promise<T | null> {
  for (let left = tries; left > 0; left -= 1) {
    const value = await work();
    if (value !== null) return value;
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
  return null;
}

/** `work` on every item, at most `width` at a time; the answers in the items' order. */
export async function mapBounded<T, R>(items: readonly T[], width: number, work: (item: T) => Promise<R>): Promise<R[]> {
  const answers: R[] = [];
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let at = next++; at < items.length; at = next++) answers[at] = await work(items[at] as T);
  };
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, lane));
  return answers;
}
