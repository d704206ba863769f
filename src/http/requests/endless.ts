import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

type Endless = ServerResponse | Socket;

const endlessOf = new WeakMap<Server, Set<Endless>>();

/**
 * Returns the responses and connections that a stop of the server does not wait for: open event streams, and connections without a request
 * (those that have sent none yet, and upgraded ones). The framework does not count them as idle, and would wait for them.
 */
export function endless(server: Server): Set<Endless> {
  const known = endlessOf.get(server) ?? new Set();
  endlessOf.set(server, known);
  return known;
}

/** Makes a stop of the server cut the response, or the connection, which may never end by itself. */
export function cutAtStop(server: Server, one: Endless): void {
  const all = endless(server);
  all.add(one);
  one.once('close', () => all.delete(one));
}
