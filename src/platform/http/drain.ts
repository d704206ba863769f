import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import type { FastifyInstance } from 'fastify';

import { pause } from '../async/pause.ts';

const LOOK_EVERY_MS = 50;
/** The time for which an event stream, which may never end, may still end by itself, ms. */
const STREAM_GRACE_MS = 1_000;

const streamsOf = new WeakMap<FastifyInstance, Set<ServerResponse>>();
/** The connections that have sent no request yet. The framework does not count them as idle, and would wait for them. */
const silentOf = new WeakMap<FastifyInstance, Set<Socket>>();

/**
 * Records what a stop need not wait for: event streams and connections without a request. It must be called before the first route is
 * registered.
 */
export function trackConnections(server: FastifyInstance): void {
  const open = new Set<ServerResponse>();
  streamsOf.set(server, open);
  const silent = new Set<Socket>();
  silentOf.set(server, silent);
  server.server.on('connection', (socket: Socket) => {
    silent.add(socket);
    socket.once('close', () => silent.delete(socket));
  });
  server.server.on('request', ({ socket }: IncomingMessage) => silent.delete(socket));
  server.addHook('onSend', (_request, reply, payload, done) => {
    if (String(reply.getHeader('content-type') ?? '').startsWith('text/event-stream')) {
      open.add(reply.raw);
      reply.raw.once('close', () => open.delete(reply.raw));
    }
    done(null, payload);
  });
}

/**
 * Stops accepting connections and waits until running requests are answered, at most so long (ms). Event streams are cut, since their
 * readers reconnect, and so are connections without a request.
 */
export async function drain(app: NestFastifyApplication, timeoutMs: number): Promise<void> {
  const server: Server = app.getHttpServer();
  if (!server.listening) return;
  const fastify = app.getHttpAdapter().getInstance();
  const endless = [streamsOf, silentOf].map((ofServer) => ofServer.get(fastify) ?? new Set<ServerResponse | Socket>());
  const drained = new AbortController();
  server.close(() => drained.abort());
  for (const started = performance.now(); !drained.signal.aborted && performance.now() - started < timeoutMs; await pause(LOOK_EVERY_MS)) {
    server.closeIdleConnections();
    if (performance.now() - started > STREAM_GRACE_MS) for (const each of endless) for (const one of each) one.destroy();
  }
}
