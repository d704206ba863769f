import { request, type RequestOptions } from 'node:http';

import ipaddr from 'ipaddr.js';

import { timeoutSignal } from '../kernel/async/timeout-signal.ts';
import { pause } from '../kernel/async/pause.ts';
import type { AgentAddress } from '../kernel/network/agent-address.ts';
import { connectToAgent } from './agent-connection.ts';
import { onTooManyInformational } from './informational-responses.ts';
import type { HealthCheck } from './protocol.ts';

/** The timeout of one attempt, in ms. A server that accepts a connection and does not respond may still be starting, so it is tried again. */
const ATTEMPT_TIMEOUT_MS = 2_000;
const FIRST_WAIT_MS = 5;
const LAST_WAIT_MS = 2_000;
/**
 * A connection to a loopback address has to stay open for this time, in ms: port forwarders accept connections for a container that does
 * not listen, and close them immediately. A container's own address has no forwarder.
 */
const STAYS_OPEN_MS = 20;
/** The same for a connection through a relay, where the forwarder is on another machine and closes later. */
const STAYS_OPEN_RELAYED_MS = 300;

/**
 * Returns true once the agent is ready, and false after `withinMs` or when the signal aborts. The interval between checks grows from 5 ms
 * to 2 s.
 */
export async function waitUntilReady(address: AgentAddress, health: HealthCheck, withinMs: number, signal: AbortSignal): Promise<boolean> {
  const begun = performance.now();
  const end = begun + withinMs;
  while (!signal.aborted) {
    const left = end - performance.now();
    if (left <= 0) return false;
    const attempt = AbortSignal.any([signal, timeoutSignal(Math.min(left, ATTEMPT_TIMEOUT_MS))]);
    if ('path' in health ? await respondsOk(address, health.path, attempt) : await acceptsConnection(address, attempt)) return true;
    const wait = pollIntervalMs(performance.now() - begun);
    await pause(Math.min(wait, Math.max(0, end - performance.now())), signal);
  }
  return false;
}

/**
 * Returns the delay until the next check, in ms. It is a tenth of the elapsed time, which bounds how late a check may be. There may be many
 * slow agents, and each of them must not cost a connection every few milliseconds.
 */
export function pollIntervalMs(elapsedMs: number): number {
  return Math.min(Math.max(elapsedMs / 10, FIRST_WAIT_MS), LAST_WAIT_MS);
}

/** Returns the time for which a connection has to stay open, in ms; null if an established connection suffices. */
function staysOpenMs({ host, relay }: AgentAddress): number | null {
  if (relay !== undefined) return STAYS_OPEN_RELAYED_MS;
  return !ipaddr.isValid(host) || ipaddr.process(host).range() === 'loopback' ? STAYS_OPEN_MS : null;
}

function respondsOk(address: AgentAddress, path: string, signal: AbortSignal): Promise<boolean> {
  const { host, port } = address;
  return new Promise((resolve) => {
    const createConnection: RequestOptions['createConnection'] = (_options, onCreated) => {
      connectToAgent(address, signal).then(
        (socket) => onCreated(null, socket),
        (error: Error) => onCreated(error, null as never),
      );
      return undefined;
    };
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

async function acceptsConnection(address: AgentAddress, signal: AbortSignal): Promise<boolean> {
  const socket = await connectToAgent(address, signal).catch(() => null);
  if (socket === null) return false;
  return new Promise((resolve) => {
    let timer: NodeJS.Timeout | undefined;
    const settle = (open: boolean) => {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      socket.destroy();
      resolve(open);
    };
    const onAbort = () => settle(false);
    signal.addEventListener('abort', onAbort);
    for (const end of ['error', 'close', 'end']) socket.on(end, () => settle(false));
    const onConnect = () => {
      const ms = staysOpenMs(address);
      // A process that was busy meanwhile processes the other side's close first.
      if (ms === null) settle(true);
      else timer = setTimeout(() => setImmediate(() => settle(true)), ms);
    };
    if (socket.connecting) socket.on('connect', onConnect);
    else onConnect();
    // The socket has to be read, or else the end of the other side is not noticed.
    socket.resume();
  });
}
