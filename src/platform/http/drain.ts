import type { Server, ServerResponse } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';

import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import type { FastifyInstance } from 'fastify';

const LOOK_EVERY_MS = 50;
/** What an event stream that may never end gets to come to its end by itself. */
const STREAM_GRACE_MS = 1_000;

const streamsOf = new WeakMap<FastifyInstance, Set<ServerResponse>>();

/** Takes note of answers that are event streams; to be called before the first route is made. */
export function noteEventStreams(server: FastifyInstance): void {
  const open = new Set<ServerResponse>();
  streamsOf.set(server, open);
  server.addHook('onSend', (_request, reply, payload, done) => {
    if (String(reply.getHeader('content-type') ?? '').startsWith('text/event-stream')) {
      open.add(reply.raw);
      reply.raw.once('close', () => open.delete(reply.raw));
    }
    done(null, payload);
  });
}

/** Takes no new connection and waits until what was asked is answered, at most so long (ms). Event streams are cut: their readers come again. */
export async function drain(app: NestFastifyApplication, timeoutMs: number): Promise<void> {
  const server: Server = app.getHttpServer();
  if (!server.listening) return;
  const streams = streamsOf.get(app.getHttpAdapter().getInstance()) ?? new Set();
  const drained = new AbortController();
  server.close(() => drained.abort());
  for (const started = performance.now(); !drained.signal.aborted && performance.now() - started < timeoutMs; await wait(LOOK_EVERY_MS)) {
    server.closeIdleConnections();
    if (performance.now() - started > STREAM_GRACE_MS) for (const stream of streams) stream.destroy();
  }
}
