import { RouteConfig } from '@nestjs/platform-fastify';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { isTokenless, type MooringRequest, shareOf } from '../requests/request.ts';
import { BodiesInFlight, TOKENLESS_BYTES_MAX } from '../limits/bodies-in-flight.ts';
import { type JsonBounds, parseJson } from '../requests/json.ts';
import { LargeBodies, TOKENLESS_READ_AT_ONCE } from '../limits/large-bodies.ts';

/** The bound on a JSON body, and on a raw one unless a route sets another, in bytes. */
export const BODY_LIMIT = 1_048_576;
/** The same bound for a caller without a credential, on public routes. */
const ANONYMOUS_BODY_BYTES_MAX = 16_384;
/** The time within which a body that is read into memory must arrive, in ms. Streams have a limit of their own. */
const BODY_TIMEOUT_MS = 30_000;
/** The size up to which a body is read and parsed immediately, in bytes; that takes less than a millisecond. */
const SMALL = 65_536;
/** The fraction of an account's rate of reading that its webhooks without a token get in addition. */
const TOKENLESS_FRACTION = 1 / 4;

declare module 'fastify' {
  interface FastifyContextConfig {
    body?: 'buffer' | 'stream' | 'untouched';
    bodyLimit?: number;
    jsonBounds?: JsonBounds;
  }
}

/**
 * Marks a route that accepts a body of any media type, as the received bytes (`buffer`, at most `limit` bytes) or as a stream that the
 * handler reads and bounds (`stream`; `untouched` accepts any content encoding, too). Without it a route accepts only JSON.
 */
export const RawBody = (body: 'buffer' | 'stream' | 'untouched', limit = BODY_LIMIT) => RouteConfig({ body, bodyLimit: limit });

/** Sets the bound on a route's JSON body, in bytes, and those on its parts. */
export const JsonBody = (limit: number, jsonBounds?: JsonBounds) => RouteConfig({ bodyLimit: limit, jsonBounds });

/** Replaces the server's body parsers. `largeBodiesMbPerSecond` is the rate at which large bodies of one account are read, in MiB. */
export function addBodyParsers(server: FastifyInstance, largeBodiesMbPerSecond: number): void {
  const bytesPerSecond = largeBodiesMbPerSecond * 1_048_576;
  const known = { inFlight: new BodiesInFlight(), large: new LargeBodies(bytesPerSecond) };
  // Anybody may send these, so they have slots of their own.
  const large = new LargeBodies(bytesPerSecond * TOKENLESS_FRACTION, TOKENLESS_READ_AT_ONCE);
  const tokenless = { inFlight: new BodiesInFlight(TOKENLESS_BYTES_MAX), large };
  const boundsOf = (request: Request) => (isTokenless(request) ? tokenless : known);
  server.addHook('onRequest', (request, _reply, done) => {
    // The framework refuses an invalid media type, but on such a route that is up to the receiver of the body.
    if (request.routeOptions.config?.body === 'untouched') request.raw.headers['content-type'] = 'application/octet-stream';
    done();
  });
  server.addHook('onSend', (request: Request, reply, payload, done) => {
    const account = shareOf(request);
    if (request.largeBody !== undefined && account !== null && isClientError(reply))
      boundsOf(request).large.refused(account, request.largeBody);
    done(null, payload);
  });
  server.removeAllContentTypeParsers();
  server.addContentTypeParser('*', (request: Request, payload: NodeJS.ReadableStream) => parseBody(request, payload, boundsOf(request)));
}

type Request = FastifyRequest & MooringRequest;

/** The bounds on the bodies of all callers in total. */
interface Bounds {
  inFlight: BodiesInFlight;
  large: LargeBodies;
}

async function parseBody(request: Request, payload: NodeJS.ReadableStream, { inFlight, large }: Bounds): Promise<unknown> {
  const {
    body,
    bodyLimit = request.caller === undefined ? ANONYMOUS_BODY_BYTES_MAX : BODY_LIMIT,
    jsonBounds,
  } = request.routeOptions.config ?? {};
  if (body === 'untouched') return payload;
  const encoding = request.headers['content-encoding'];
  if (encoding !== undefined && encoding !== 'identity')
    throw new ProblemError('unsupported_media_type', 'A compressed body is not taken.');
  if (body === 'stream') return payload;
  const type = (request.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';
  if (body !== 'buffer' && !/^application\/([\w.-]+\+)?json$/.test(type))
    throw new ProblemError('unsupported_media_type', 'The body must be application/json.');
  const length = Number(request.headers['content-length'] ?? bodyLimit);
  if (length > bodyLimit) throw tooLarge(bodyLimit);
  const account = shareOf(request);
  const read = async () => {
    let size = 0;
    try {
      const bytes = await readAll(request, payload, (more) => {
        size += more;
        inFlight.add(account, more);
        if (size > bodyLimit) throw tooLarge(bodyLimit);
      });
      if (body === 'buffer') return bytes;
      const parse = () => parseJson(bytes, jsonBounds);
      return bytes.length <= SMALL ? parse() : await large.parse(account ?? '', parse);
    } finally {
      inFlight.remove(account, size);
    }
  };
  if (length <= SMALL || account === null) return read();
  return large.read(account, length, () => {
    request.largeBody = length;
    return read();
  });
}

function isClientError({ statusCode }: FastifyReply): boolean {
  return statusCode >= 400 && statusCode < 500;
}

async function readAll(request: Request, payload: NodeJS.ReadableStream, onBytes: (bytes: number) => void): Promise<Buffer> {
  if (request.raw.destroyed) throw incompleteBody();
  const tooSlow = setTimeout(() => request.raw.destroy(), BODY_TIMEOUT_MS);
  try {
    return await collect(payload, onBytes);
  } finally {
    clearTimeout(tooSlow);
  }
}

function tooLarge(limit: number): ProblemError {
  return new ProblemError('payload_too_large', `The body may have ${limit} bytes at most.`);
}

/**
 * Collects the bytes with event listeners, since leaving a `for await` loop early destroys the connection before the response is sent.
 * `onBytes` may throw.
 */
function collect(payload: NodeJS.ReadableStream, onBytes: (bytes: number) => void): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const take = (chunk: Buffer) => {
      try {
        onBytes(chunk.length);
        chunks.push(chunk);
      } catch (error) {
        chunks.length = 0;
        payload.off('data', take);
        payload.on('data', () => undefined);
        reject(error);
      }
    };
    payload.on('data', take);
    payload.on('end', () => {
      payload.off('close', onClose);
      resolve(Buffer.concat(chunks));
    });
    payload.on('error', reject);
    const onClose = () => reject(incompleteBody());
    payload.on('close', onClose);
  });
}

function incompleteBody(): ProblemError {
  return new ProblemError('invalid_request', 'The body did not come to its end.');
}
