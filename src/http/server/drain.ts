import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';

import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import type { FastifyInstance } from 'fastify';

import { pause } from '../../kernel/async/pause.ts';
import { endAtShutdown, trackEndlessResponses } from '../requests/endless-responses.ts';
import { WebSockets } from './web-sockets.ts';

const POLL_INTERVAL_MS = 50;
/** The time for which an event stream, which may never end, may still end by itself, in ms. */
const STREAM_GRACE_MS = 1_000;

/**
 * Records the connections that a stop need not wait for: event streams and connections without a request. It must be called before the
 * first route is registered.
 */
export function trackConnections(server: FastifyInstance): void {
  server.server.on('connection', (socket: Socket) => endAtShutdown(server.server, socket));
  server.server.on('request', ({ socket }: IncomingMessage) => trackEndlessResponses(server.server).delete(socket));
  server.addHook('onSend', (_request, reply, payload, done) => {
    if (String(reply.getHeader('content-type') ?? '').startsWith('text/event-stream')) endAtShutdown(server.server, reply.raw);
    done(null, payload);
  });
}

/**
 * Stops accepting connections and waits until running requests are complete, for at most that time (in ms). Event streams are cut, since
 * their readers reconnect, and so are connections without a request. WebSockets are closed first, with a reason.
 */
export async function drain(app: NestFastifyApplication, timeoutMs: number): Promise<void> {
  const server: Server = app.getHttpServer();
  if (!server.listening) return;
  app.get(WebSockets, { strict: false }).closeAll();
  const drained = new AbortController();
  server.close(() => drained.abort());
  for (
    const started = performance.now();
    !drained.signal.aborted && performance.now() - started < timeoutMs;
    await pause(POLL_INTERVAL_MS)
  ) {
    server.closeIdleConnections();
    if (performance.now() - started > STREAM_GRACE_MS) for (const one of trackEndlessResponses(server)) one.destroy();
  }
}
