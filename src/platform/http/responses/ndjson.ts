import { Readable } from 'node:stream';

import type { FastifyReply, FastifyRequest } from 'fastify';

export const NDJSON = 'application/x-ndjson';

export function wantsNdjson(request: FastifyRequest): boolean {
  return (request.headers.accept ?? '').includes(NDJSON);
}

/** Responds with one item per line. The items are read no faster than the caller reads, and end when the caller disconnects. */
export async function sendNdjson(reply: FastifyReply, items: AsyncIterable<unknown>): Promise<void> {
  void reply.header('content-type', `${NDJSON}; charset=utf-8`).header('cache-control', 'no-store');
  await reply.send(Readable.from(lines(items), { objectMode: true, highWaterMark: 16 }));
}

async function* lines(items: AsyncIterable<unknown>): AsyncGenerator<string> {
  for await (const item of items) yield `${JSON.stringify(item)}\n`;
}
