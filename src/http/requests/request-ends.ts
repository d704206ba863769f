import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

const SWITCHING_PROTOCOLS = 101;

/** The end of a request. */
export interface RequestEnd {
  request: FastifyRequest;
  /** The status of the response; null if its headers were not sent. */
  status: number | null;
  /** The value is true if the caller disconnected before the response was complete. An upgraded connection has no response to complete. */
  isAborted: boolean;
  /** The time from the request to its end, in ms. */
  ms: number;
}

type Listener = (end: RequestEnd) => void;

const listenersOf = new WeakMap<FastifyInstance, Listener[]>();

/** Watches for the end of every request. It must be called before any other hook is added, since a hook may refuse the request. */
export function watchRequestEnds(server: FastifyInstance): void {
  const listeners: Listener[] = [];
  listenersOf.set(server, listeners);
  // The framework's own hook is not called for a request whose caller disconnects.
  server.addHook('onRequest', (request, reply, done) => {
    const started = performance.now();
    let isComplete = false;
    // The event is also emitted when a write ends with its connection, and the server's own listener then detaches the connection.
    reply.raw.prependOnceListener('finish', () => (isComplete = !request.raw.socket.destroyed));
    reply.raw.once('close', () => {
      const end = endOf(request, reply, isComplete, performance.now() - started);
      for (const listener of listeners) listener(end);
    });
    done();
  });
}

/** Calls the listener once for each request, when its response is complete or its connection has closed before that. */
export function onRequestEnd(server: FastifyInstance, listener: Listener): void {
  listenersOf.get(server)?.push(listener);
}

function endOf(request: FastifyRequest, { raw }: FastifyReply, isComplete: boolean, ms: number): RequestEnd {
  const isUpgraded = raw.statusCode === SWITCHING_PROTOCOLS;
  return {
    request,
    status: raw.headersSent || isUpgraded ? raw.statusCode : null,
    isAborted: !isComplete && !isUpgraded,
    ms,
  };
}
