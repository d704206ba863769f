import { type IncomingMessage, METHODS, type RequestListener, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

import { type DynamicModule, Logger, type Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Logger as Pino } from 'pino';

import { addBodyParsers, BODY_LIMIT } from './body.ts';
import { trackConnections } from './drain.ts';
import { HttpListener } from './http-listener.ts';
import type { UrlRewriter } from './url-rewriter.ts';
import { recordRoutes } from '../requests/known-routes.ts';
import { createPino, PinoLogger } from '../../kernel/observability/logger.ts';
import { setUpOpenApi } from '../docs/openapi.ts';
import { sendProblem } from '../responses/problems.filter.ts';
import { toProblem } from '../responses/problems.ts';
import { onRequestEnd, type RequestEnd, watchRequestEnds } from '../requests/request-ends.ts';
import { routeOf } from '../requests/request-route.ts';
import { newId } from '../../kernel/ids.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';

declare module 'fastify' {
  interface FastifyRequest {
    requestId: string;
  }
}

/** Node warns of a leak beyond so many listeners of one event. Eleven wait for the end of a streamed response: four are ours. */
const LISTENERS_MAX = 20;

export interface ServerOptions {
  /** The log level of pino. */
  logLevel: string;
  /** The logger; without it, lines go to stdout. */
  pino?: Pino;
  /** The addresses or ranges of trusted proxies, whose forwarded caller is believed; none if absent. */
  trustedProxies?: readonly string[];
  /** The MiB of large bodies that are read of one account in a second. */
  largeBodiesMbPerSecond: number;
  /** The HTTP server; it may be listening already. */
  listener?: HttpListener;
  /** Returns the path and query that a request is routed by, in place of its own; requests are routed by their own without it. */
  rewriteUrl?: UrlRewriter | undefined;
}

/** Creates the HTTP application of a module that includes `HttpModule`. It is initialized, and gets the requests that come from then on. */
export async function createServer(module: Type | DynamicModule, options: ServerOptions): Promise<NestFastifyApplication> {
  const pino = options.pino ?? createPino(options.logLevel);
  const entrance = options.listener ?? new HttpListener();
  const adapter = createAdapter(pino, entrance, options);
  const app = await NestFactory.create<NestFastifyApplication>(module, adapter, {
    bodyParser: false,
    logger: new PinoLogger(pino),
    abortOnError: false,
  });
  try {
    setUpOpenApi(app);
    await app.init();
    await adapter.getInstance().ready();
    entrance.open();
    return app;
  } catch (error) {
    await app.close();
    throw error;
  }
}

/** Creates a Fastify server with bounds on everything that an unknown caller may send. */
function createAdapter(
  pino: Pino,
  entrance: HttpListener,
  { trustedProxies = [], largeBodiesMbPerSecond, rewriteUrl }: ServerOptions,
): FastifyAdapter {
  const logger = new Logger('Http');
  const adapter = new FastifyAdapter({
    skipMiddie: true,
    bodyLimit: BODY_LIMIT,
    trustProxy: trustedProxies.length > 0 ? [...trustedProxies] : false,
    requestIdHeader: false,
    genReqId: (request: IncomingMessage) => requestIdFrom(request.headers['x-request-id']),
    serverFactory: (application: RequestListener) => entrance.attach(application),
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    ...(rewriteUrl === undefined ? {} : { rewriteUrl }),
    // This is as long as headers may be; a route bounds its ids itself.
    routerOptions: { maxParamLength: 16_384 },
    frameworkErrors: (error: unknown, request: FastifyRequest, reply: FastifyReply) => {
      markReply(request, reply);
      sendProblem(error, request, reply, logger);
    },
    clientErrorHandler: respondToMalformed,
  });
  const server = adapter.getInstance<FastifyInstance>();
  // Public agents take every method.
  for (const method of METHODS)
    if (method !== 'CONNECT' && !server.supportedMethods.includes(method)) server.addHttpMethod(method, { hasBody: true });
  recordRoutes(server);
  watchRequestEnds(server);
  onRequestEnd(server, (end) => logAccess(pino, end));
  trackConnections(server);
  addBodyParsers(server, largeBodiesMbPerSecond);
  server.decorateRequest('requestId', '');
  server.server.on('checkExpectation', respondToExpectation);
  server.addHook('onRequest', (request, reply, done) => {
    markReply(request, reply);
    done();
  });
  return adapter;
}

function requestIdFrom(header: string | string[] | undefined): string {
  return typeof header === 'string' && /^[A-Za-z0-9._-]{1,128}$/.test(header) ? header : newId();
}

function markReply(request: FastifyRequest, reply: FastifyReply): void {
  reply.raw.setMaxListeners(LISTENERS_MAX);
  request.requestId = request.id;
  void reply.header('x-request-id', request.id).header('x-content-type-options', 'nosniff');
}

function logAccess(pino: Pino, { request, status, isAborted, ms }: RequestEnd): void {
  pino.info(
    {
      request_id: request.id,
      method: request.method,
      route: routeOf(request),
      status,
      ms: Math.round(ms * 10) / 10,
      ...(isAborted ? { aborted: true } : {}),
    },
    'request',
  );
}

/** Responds to expectations other than `100-continue`, which the server handles itself; they never reach a route. */
function respondToExpectation(_request: IncomingMessage, response: ServerResponse): void {
  const { status, headers, body } = toProblem(
    new ProblemError('invalid_request', 'The Expect header asks for what is not done here.'),
    newId(),
  );
  response.writeHead(status, { ...headers, 'x-request-id': body.request_id, connection: 'close' }).end(JSON.stringify(body));
}

/** Responds to input that is not HTTP and never reaches a route, with the same kind of problem, and ends the connection. */
function respondToMalformed(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const tooLarge = error.code === 'HPE_HEADER_OVERFLOW';
  const late = error.code === 'ERR_HTTP_REQUEST_TIMEOUT';
  const refusal = tooLarge
    ? new ProblemError('payload_too_large', 'The headers are too large.')
    : new ProblemError('invalid_request', late ? 'The request did not come to its end in time.' : 'This is not an HTTP request.');
  const { status, headers, body } = toProblem(refusal, newId());
  const text = JSON.stringify(body);
  const lines = Object.entries({
    ...headers,
    'x-request-id': body.request_id,
    'content-length': String(Buffer.byteLength(text)),
    connection: 'close',
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${status} ${body.title}\r\n${lines.join('')}\r\n${text}`);
}
