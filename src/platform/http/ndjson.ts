import { Readable } from 'node:stream';

import type { FastifyReply, FastifyRequest } from 'fastify';

export const NDJSON = 'application/x-ndjson';

export function wantsNdjson(request: FastifyRequest): boolean {
  return (request.headers.accept ?? '').includes(NDJSON);
}

/** Answers with an item a line. A caller that does not read holds the source back, and one that leaves ends it. */
export async function sendNdjson(reply: FastifyReply, items: AsyncIterable<unknown>): Promise<void> {
  void reply.header('content-type', `${NDJSON}; charset=utf-8`).header('cache-control', 'no-store');
  await reply.send(Readable.from(lines(items), { objectMode: true, highWaterMark: 16 }));
}

async function* lines(items: AsyncIterable<unknown>): AsyncGenerator<string> {
  for await (const item of items) yield `${JSON.stringify(item)}\n`;
}
