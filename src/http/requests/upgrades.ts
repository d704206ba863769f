import http, { ServerResponse, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/** A connection on which a caller requests the WebSocket protocol. */
export interface Upgrade {
  request: IncomingMessage;
  socket: Socket;
  /** The bytes that arrived right after the handshake. */
  head: Buffer;
}

/** Starts to read requests from the connection. Emitting the server's event instead would make its listeners count another connection. */
const { _connectionListener: readRequests } = http as unknown as {
  _connectionListener: (this: Server, socket: Socket) => void;
};

const upgrades = new WeakMap<IncomingMessage, Upgrade>();

/**
 * Passes WebSocket handshakes to the listener like any other request, so that the same gate admits them and refused ones get the same
 * problem. A request for any other protocol is handled as HTTP, as the standard allows.
 */
export function routeUpgrades(server: Server, listener: RequestListener): void {
  /** The last response of each connection that has not ended. Responses end in the order of their requests. */
  const last = new WeakMap<Socket, ServerResponse>();
  const guarded = new WeakSet<Socket>();
  server.prependListener('request', ({ socket }, response) => {
    last.set(socket, response);
    response.once('close', () => {
      if (last.get(socket) === response) last.delete(socket);
    });
  });
  server.on('upgrade', (request: IncomingMessage, duplex: Duplex, head: Buffer) => {
    const socket = duplex as Socket;
    // The server has removed its own listener, and an error without a listener ends the process.
    if (!guarded.has(socket)) socket.on('error', () => undefined);
    guarded.add(socket);
    if (!isHandshake(request)) {
      const again = () => replay(server, { request, socket, head });
      const before = last.get(socket);
      // The server would lose the order of responses to requests that it read before and after.
      if (before === undefined) again();
      else before.once('close', again);
      return;
    }
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket);
    response.once('finish', () => socket.destroySoon());
    upgrades.set(request, { request, socket, head });
    listener(request, response);
  });
}

/** Returns the connection of a request that is a WebSocket handshake; null for any other request. */
export function upgradeOf(request: IncomingMessage): Upgrade | null {
  return upgrades.get(request) ?? null;
}

function isHandshake({ method, headers }: IncomingMessage): boolean {
  const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
  return method === 'GET' && !hasBody && headers.upgrade?.toLowerCase() === 'websocket';
}

/** Makes the server read the request again, without its request for another protocol. */
function replay(server: Server, { request, socket, head }: Upgrade): void {
  if (socket.destroyed || !socket.writable) return;
  const { method, url, httpVersion, rawHeaders } = request;
  let lines = `${method} ${url} HTTP/${httpVersion}\r\n`;
  for (let at = 0; at < rawHeaders.length; at += 2)
    if (rawHeaders[at]?.toLowerCase() !== 'upgrade') lines += `${rawHeaders[at]}: ${rawHeaders[at + 1]}\r\n`;
  socket.unshift(Buffer.concat([Buffer.from(`${lines}\r\n`, 'latin1'), head]));
  socket.setTimeout(0);
  socket.removeAllListeners('timeout');
  readRequests.call(server, socket);
}
