import { type IncomingMessage, request as httpRequest, type Server } from 'node:http';
import { type Duplex, duplexPair } from 'node:stream';

import { Injectable } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';

import type { RequestContext } from './request-context.ts';

/** A request to a route of this service. */
export interface OwnRequest {
  method: string;
  /** The path and query. */
  path: string;
  headers: Readonly<Record<string, string>>;
  /** The body, whose type is among the headers; null if there is none. */
  body: string | null;
}

/** The headers by which a trusted proxy reports the caller's address and how the caller reached the proxy. */
const FORWARDED_HEADERS = ['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto'];

/**
 * Sends requests of this process to its own routes, over connections that are pairs of streams in memory. The HTTP server reads them as it
 * reads any other connection, so everything that applies to requests applies to these (decisions/0062).
 */
@Injectable()
export class OwnRoutes {
  constructor(private readonly host: HttpAdapterHost) {}

  /**
   * Sends the request with the credential, the request id and the address of the call. Resolves with the response when its headers have
   * arrived. Once the signal aborts, the request ends as if its caller had closed the connection, and the promise rejects with the signal's
   * reason.
   */
  send(call: RequestContext, { method, path, headers, body }: OwnRequest, signal: AbortSignal): Promise<IncomingMessage> {
    const server = this.host.httpAdapter.getHttpServer() as Server;
    const address = call.incoming.socket.remoteAddress ?? '';
    const sent = {
      ...headers,
      ...headersOf(call),
      ...(body === null ? {} : { 'content-length': Buffer.byteLength(body) }),
      connection: 'close',
    };
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const request = httpRequest({ method, path, headers: sent, signal, createConnection: () => connectionTo(server, address) });
      request.once('response', resolve);
      request.on('error', (error) => reject(signal.aborted ? (signal.reason as Error) : error));
      request.end(body ?? undefined);
    });
  }
}

function headersOf(call: RequestContext): Record<string, string> {
  const forwarded = FORWARDED_HEADERS.flatMap((name) => {
    const value = call.headers[name];
    return typeof value === 'string' ? [[name, value] as const] : [];
  });
  return {
    ...Object.fromEntries(forwarded),
    host: String(call.headers.host ?? ''),
    authorization: `Bearer ${call.credential}`,
    'x-request-id': call.requestId,
  };
}

/** Returns the caller's end of a new connection to the server, which sees the address as its peer's. */
function connectionTo(server: Server, remoteAddress: string): Duplex {
  const [here, there] = duplexPair();
  // The server calls these methods of a socket without checking that they exist.
  const nothing = () => there;
  Object.assign(there, { remoteAddress, setTimeout: nothing, setNoDelay: nothing, setKeepAlive: nothing, ref: nothing, unref: nothing });
  here.once('close', () => there.destroy());
  there.once('close', () => here.destroy());
  server.emit('connection', there);
  return here;
}
