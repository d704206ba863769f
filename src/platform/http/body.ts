import { RouteConfig } from '@nestjs/platform-fastify';
import type { FastifyInstance, FastifyRequest } from 'fastify';

import { type FieldError, Refusal } from '../refusal.ts';

/** Bytes of a JSON body, and of a raw one unless a route says otherwise. */
export const BODY_LIMIT = 1_048_576;
const MAX_DEPTH = 64;
/** Time in which a body that is read into memory must have come, in ms. Streams have a limit of their own. */
const BODY_TIMEOUT_MS = 30_000;

declare module 'fastify' {
  interface FastifyContextConfig {
    body?: 'buffer' | 'stream';
    bodyLimit?: number;
  }
}

/**
 * The route takes a body of any media type, as the bytes that came (`buffer`, at most `limit` bytes) or as a stream
 * which the handler reads and bounds. Without it a route takes JSON and nothing else.
 */
export const RawBody = (body: 'buffer' | 'stream', limit = BODY_LIMIT) => RouteConfig({ body, bodyLimit: limit });

/** Replaces the server's body parsers. */
export function addBodyParsers(server: FastifyInstance): void {
  server.removeAllContentTypeParsers();
  server.addContentTypeParser('*', (request: FastifyRequest, payload: NodeJS.ReadableStream) => parseBody(request, payload));
}

async function parseBody(request: FastifyRequest, payload: NodeJS.ReadableStream): Promise<unknown> {
  const { body, bodyLimit = BODY_LIMIT } = request.routeOptions.config ?? {};
  const encoding = request.headers['content-encoding'];
  if (encoding !== undefined && encoding !== 'identity') throw new Refusal('unsupported_media_type', 'A compressed body is not taken.');
  if (body === 'stream') return payload;
  const type = (request.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';
  if (body !== 'buffer' && !/^application\/([\w.-]+\+)?json$/.test(type))
    throw new Refusal('unsupported_media_type', 'The body must be application/json.');
  const bytes = await readAll(request, payload, bodyLimit);
  return body === 'buffer' ? bytes : parseJson(bytes);
}

async function readAll(request: FastifyRequest, payload: NodeJS.ReadableStream, limit: number): Promise<Buffer> {
  const tooLarge = () => new Refusal('payload_too_large', `The body may have ${limit} bytes at most.`);
  if (Number(request.headers['content-length'] ?? 0) > limit) throw tooLarge();
  const tooSlow = setTimeout(() => request.raw.destroy(), BODY_TIMEOUT_MS);
  try {
    return await collect(payload, limit, tooLarge);
  } finally {
    clearTimeout(tooSlow);
  }
}

/** By events, not by `for await`: leaving such a loop early destroys the connection, and the answer with it. */
function collect(payload: NodeJS.ReadableStream, limit: number, tooLarge: () => Refusal): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    payload.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size <= limit) chunks.push(chunk);
      else reject(tooLarge());
    });
    payload.on('end', () => resolve(Buffer.concat(chunks)));
    payload.on('error', reject);
    payload.on('close', () => reject(new Refusal('invalid_request', 'The body did not come to its end.')));
  });
}

/** The value; undefined where the body is empty. Throws `invalid_request`. */
export function parseJson(bytes: Buffer): unknown {
  if (bytes.length === 0) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    throw new Refusal('invalid_request', 'The body is not well-formed JSON in UTF-8.');
  }
  const errors: FieldError[] = [];
  checkJson(value, '', 0, errors);
  if (errors.length > 0)
    throw new Refusal('invalid_request', errors.map((error) => `${error.field}: ${error.message}`).join('; '), { errors });
  return value;
}

/** Members that the framework drops without a word; refused instead, so that nothing gets lost. */
const lostNames = new Set(['__proto__', 'constructor', 'prototype']);

/** Text that PostgreSQL can't hold, names that reach an object's prototype, and depths on which later stages would fail. */
function checkJson(value: unknown, field: string, depth: number, errors: FieldError[]): void {
  const refuse = (message: string) => {
    if (errors.length < 20) errors.push({ field: field || 'body', message });
  };
  if (typeof value === 'string' && !isPlainText(value)) refuse('holds NUL or half of a surrogate pair');
  if (typeof value !== 'object' || value === null) return;
  if (depth >= MAX_DEPTH) return refuse(`is nested more than ${MAX_DEPTH} levels deep`);
  if (Array.isArray(value)) return value.forEach((item, index) => checkJson(item, joined(field, String(index)), depth + 1, errors));
  for (const [key, member] of Object.entries(value)) {
    if (lostNames.has(key) || !isPlainText(key)) refuse('has a member whose name is not allowed');
    else checkJson(member, joined(field, key), depth + 1, errors);
  }
}

function isPlainText(text: string): boolean {
  return !/[\0\p{Surrogate}]/u.test(text);
}

function joined(field: string, name: string): string {
  const path = field === '' ? name : `${field}.${name}`;
  return path.length <= 200 ? path : `${path.slice(0, 200)}…`;
}
