import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

type EndlessResponses = ServerResponse | Socket;

const endlessResponsesOf = new WeakMap<Server, Set<EndlessResponses>>();

/**
 * Returns the responses and connections that a stop of the server does not wait for: open event streams, and connections without a request
 * (those that have sent none yet, and upgraded ones). The framework does not count them as idle, and would wait for them.
 */
export function trackEndlessResponses(server: Server): Set<EndlessResponses> {
  const known = endlessResponsesOf.get(server) ?? new Set();
  endlessResponsesOf.set(server, known);
  return known;
}

/** Makes a stop of the server cut the response, or the connection, which may never end by itself. */
export function endAtShutdown(server: Server, one: EndlessResponses): void {
  const all = trackEndlessResponses(server);
  all.add(one);
  one.once('close', () => all.delete(one));
}
