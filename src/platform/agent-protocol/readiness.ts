import { request } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { onTooManyInformational } from './post-json.ts';

/** How an agent shows that it is ready: 2xx on a path, or that its port takes connections. */
export type HealthCheck = { path: string } | { tcp: true };

/** A server that takes a connection and does not answer may have been half started: it is asked again. */
const ATTEMPT_MS = 2_000;
const FIRST_WAIT_MS = 5;
const LAST_WAIT_MS = 2_000;
/** Port forwarders accept for a container that does not listen, and close at once. */
const STAYS_OPEN_MS = 20;

/** True as soon as the agent is ready, false when `withinMs` are over or the signal aborts. Looks every 5 ms at first, and every two seconds in the end. */
export async function ready(host: string, port: number, health: HealthCheck, withinMs: number, signal: AbortSignal): Promise<boolean> {
  const begun = performance.now();
  const end = begun + withinMs;
  while (!signal.aborted) {
    const left = end - performance.now();
    if (left <= 0) return false;
    const attempt = AbortSignal.any([signal, AbortSignal.timeout(Math.ceil(Math.min(left, ATTEMPT_MS)))]);
    if ('path' in health ? await answers(host, port, health.path, attempt) : await accepts(host, port, attempt)) return true;
    const wait = waitAfter(performance.now() - begun);
    await pause(Math.min(wait, Math.max(0, end - performance.now())), undefined, { signal }).catch(() => undefined);
  }
  return false;
}

/**
 * How long (ms) to wait for the next look. A tenth of the time that it has taken so far is what a look may come too late; agents that take long,
 * or never become ready, are many at times and must not cost a connection every few milliseconds each.
 */
export function waitAfter(elapsedMs: number): number {
  return Math.min(Math.max(elapsedMs / 10, FIRST_WAIT_MS), LAST_WAIT_MS);
}

function answers(host: string, port: number, path: string, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    const asking = request({ host, port, path, agent: false, signal, headers: { accept: '*/*' } }, (answer) => {
      const status = answer.statusCode ?? 0;
      resolve(status >= 200 && status < 300);
      asking.destroy();
    });
    asking.on('error', () => resolve(false));
    asking.on('close', () => resolve(false));
    onTooManyInformational(asking, () => asking.destroy());
    asking.end();
  });
}

function accepts(host: string, port: number, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port });
    let timer: NodeJS.Timeout | undefined;
    const settle = (open: boolean) => {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      socket.destroy();
      resolve(open);
    };
    const onAbort = () => settle(false);
    signal.addEventListener('abort', onAbort);
    socket.on('error', () => settle(false));
    socket.on('close', () => settle(false));
    socket.on('end', () => settle(false));
    socket.on('connect', () => {
      timer = setTimeout(() => settle(true), STAYS_OPEN_MS);
    });
    // Read, or the end of the other side would not be seen.
    socket.resume();
  });
}
