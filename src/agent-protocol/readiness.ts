import { request, type RequestOptions } from 'node:http';
import type { Socket } from 'node:net';

import ipaddr from 'ipaddr.js';

import { timeoutSignal } from '../kernel/async/timeout-signal.ts';
import { pause } from '../kernel/async/pause.ts';
import type { AgentAddress } from '../kernel/network/agent-address.ts';
import { connectToAgent } from './agent-connection.ts';
import { onTooManyInformational } from './informational-responses.ts';
import type { HealthCheck } from './protocol.ts';

/** The timeout of one check, in ms. A server that accepts a connection and does not respond may still be starting, so it is tried again. */
export const READINESS_CHECK_MS = 2_000;
const FIRST_WAIT_MS = 5;
const LAST_WAIT_MS = 2_000;
/**
 * A connection to a loopback address has to stay open for this time, in ms: port forwarders accept connections for a container that does
 * not listen, and close them immediately. A container's own address has no forwarder.
 */
const STAYS_OPEN_MS = 20;
/** The same for a connection through a relay, where the forwarder is on another machine and closes later. */
const STAYS_OPEN_RELAYED_MS = 300;

/** The result of one check of an agent. */
export type ReadinessCheck =
  | { kind: 'ready' }
  /** The agent answered with a status that is not 2xx. */
  | { kind: 'status'; status: number }
  /** Its machine refused the connection, as it does if no program listens on the port. */
  | { kind: 'refused' }
  /** No way leads to its address. */
  | { kind: 'unreachable' }
  /** There was no answer within two seconds. `isConnected` is false if there was no connection either. */
  | { kind: 'silent'; isConnected: boolean }
  /** The connection was closed without an answer. */
  | { kind: 'closed' }
  /** The answer is not HTTP. */
  | { kind: 'no_http' };

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
    const attempt = AbortSignal.any([signal, timeoutSignal(Math.min(left, READINESS_CHECK_MS))]);
    if ((await check(address, health, attempt)).kind === 'ready') return true;
    const wait = pollIntervalMs(performance.now() - begun);
    await pause(Math.min(wait, Math.max(0, end - performance.now())), signal);
  }
  return false;
}

/** Checks the agent once, within two seconds. */
export function checkReadiness(address: AgentAddress, health: HealthCheck): Promise<ReadinessCheck> {
  return check(address, health, timeoutSignal(READINESS_CHECK_MS));
}

function check(address: AgentAddress, health: HealthCheck, signal: AbortSignal): Promise<ReadinessCheck> {
  return 'path' in health ? checkResponse(address, health.path, signal) : checkConnection(address, signal);
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

function checkResponse(address: AgentAddress, path: string, signal: AbortSignal): Promise<ReadinessCheck> {
  const { host, port } = address;
  return new Promise((resolve) => {
    let isConnected = false;
    const createConnection: RequestOptions['createConnection'] = (_options, onCreated) => {
      connectToAgent(address, signal).then(
        (socket) => {
          onConnected(socket, () => (isConnected = true));
          onCreated(null, socket);
        },
        (error: Error) => onCreated(error, null as never),
      );
      return undefined;
    };
    // Messages have this `Host`, too.
    const headers = { accept: '*/*', host: 'localhost' };
    const asking = request({ host, port, path, createConnection, signal, headers }, (answer) => {
      const status = answer.statusCode ?? 0;
      resolve(status >= 200 && status < 300 ? { kind: 'ready' } : { kind: 'status', status });
      asking.destroy();
    });
    const fail = (error?: Error) => resolve(failedCheck(error, isConnected, signal));
    asking.on('error', fail);
    asking.on('close', () => fail());
    onTooManyInformational(asking, () => {
      resolve({ kind: 'no_http' });
      asking.destroy();
    });
    asking.end();
  });
}

/** Calls the function once the socket is connected. */
function onConnected(socket: Socket, connected: () => void): void {
  if (socket.connecting) socket.once('connect', connected);
  else connected();
}

function failedCheck(error: NodeJS.ErrnoException | undefined, isConnected: boolean, signal: AbortSignal): ReadinessCheck {
  if (signal.aborted) return { kind: 'silent', isConnected };
  if (error?.code?.startsWith('HPE_') === true) return { kind: 'no_http' };
  if (isConnected) return { kind: 'closed' };
  return { kind: error?.code === 'ECONNREFUSED' ? 'refused' : 'unreachable' };
}

async function checkConnection(address: AgentAddress, signal: AbortSignal): Promise<ReadinessCheck> {
  let socket: Socket;
  try {
    socket = await connectToAgent(address, signal);
  } catch (error) {
    return failedCheck(error as Error, false, signal);
  }
  return new Promise((resolve) => {
    let timer: NodeJS.Timeout | undefined;
    let isConnected = false;
    const settle = (result: ReadinessCheck) => {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      socket.destroy();
      resolve(result);
    };
    const fail = (error?: Error) => settle(failedCheck(error, isConnected, signal));
    const onAbort = () => fail();
    signal.addEventListener('abort', onAbort);
    socket.on('error', fail);
    for (const end of ['close', 'end']) socket.on(end, () => fail());
    onConnected(socket, () => {
      isConnected = true;
      const ms = staysOpenMs(address);
      // A process that was busy meanwhile processes the other side's close first.
      if (ms === null) settle({ kind: 'ready' });
      else timer = setTimeout(() => setImmediate(() => settle({ kind: 'ready' })), ms);
    });
    // The socket has to be read, or else the end of the other side is not noticed.
    socket.resume();
  });
}
