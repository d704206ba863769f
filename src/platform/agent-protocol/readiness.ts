import { request } from 'node:http';
import { connect } from 'node:net';

import ipaddr from 'ipaddr.js';

import { timeoutSignal } from '../async/timeout-signal.ts';
import { pause } from '../async/pause.ts';
import { connectToAgent } from './agent-connection.ts';
import { onTooManyInformational } from './agent-exchange.ts';

/** The sign that an agent is ready: a 2xx response on a path, or a port that accepts connections. */
export type HealthCheck = { path: string } | { tcp: true };

/** The timeout of one attempt, ms. A server that accepts a connection and does not respond may be half started, so it is asked again. */
const ATTEMPT_MS = 2_000;
const FIRST_WAIT_MS = 5;
const LAST_WAIT_MS = 2_000;
/**
 * The time for which a connection that was accepted on a loopback address has to stay open, ms: port forwarders accept for a container that
 * does not listen, and close at once. A container's own address has no forwarder.
 */
const STAYS_OPEN_MS = 20;

/**
 * Returns true as soon as the agent is ready, and false after `withinMs` or when the signal aborts. It checks every 5 ms at first, and
 * every two seconds in the end.
 */
export async function ready(host: string, port: number, health: HealthCheck, withinMs: number, signal: AbortSignal): Promise<boolean> {
  const begun = performance.now();
  const end = begun + withinMs;
  while (!signal.aborted) {
    const left = end - performance.now();
    if (left <= 0) return false;
    const attempt = AbortSignal.any([signal, timeoutSignal(Math.min(left, ATTEMPT_MS))]);
    if ('path' in health ? await answers(host, port, health.path, attempt) : await accepts(host, port, attempt)) return true;
    const wait = pollIntervalMs(performance.now() - begun);
    await pause(Math.min(wait, Math.max(0, end - performance.now())), signal);
  }
  return false;
}

/**
 * Returns the wait until the next check, ms. It is a tenth of the time so far, which bounds how late a check may be. Slow agents, and those
 * that never become ready, can be many, and must not cost a connection every few milliseconds each.
 */
export function pollIntervalMs(elapsedMs: number): number {
  return Math.min(Math.max(elapsedMs / 10, FIRST_WAIT_MS), LAST_WAIT_MS);
}

function isLoopback(host: string): boolean {
  return !ipaddr.isValid(host) || ipaddr.process(host).range() === 'loopback';
}

function answers(host: string, port: number, path: string, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    const createConnection = () => connectToAgent({ host, port });
    const asking = request({ host, port, path, createConnection, signal, headers: { accept: '*/*' } }, (answer) => {
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
      // A process that was busy meanwhile first takes in that the other side closed the connection.
      if (isLoopback(host)) timer = setTimeout(() => setImmediate(() => settle(true)), STAYS_OPEN_MS);
      else settle(true);
    });
    // The socket is read, or else the end from the other side would not be seen.
    socket.resume();
  });
}
