import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createListener, type Server, type Socket } from 'node:net';

/** Handles a request to a listener; the owner of the address answers it. */
export type AnswerCall = (address: string, request: IncomingMessage, response: ServerResponse) => void;

/**
 * Listens on addresses of 127.0.0.0/8, one for each running container. One HTTP server serves them all, so a thousand cost little. On Linux
 * every address of that network is the machine itself, and no other machine can be reached through it.
 */
export class Listeners {
  private readonly http;
  private readonly servers = new Map<string, Server>();
  /** All of them: an HTTP server that does not listen itself can't close the connections that it is given. */
  private readonly connections = new Set<Socket>();
  /** The second byte of the addresses, which differs between stand-ins so that several can run at once. */
  private readonly second = 16 + (process.pid % 220);
  private given = Math.floor(Math.random() * 30_000);

  constructor(answer: AnswerCall) {
    this.http = createServer((request, response) => answer(request.socket.localAddress ?? '', request, response));
    this.http.keepAliveTimeout = 0;
  }

  /** Returns an address that no other container of this stand-in has. */
  address(): string {
    this.given = (this.given + 1) % 65_000;
    return `127.${this.second}.${this.given >> 8}.${this.given & 255 || 255}`;
  }

  /** Resolves when connections are accepted. `take` serves them instead of HTTP if it is given. */
  async open(address: string, port: number, take?: (socket: Socket) => void): Promise<void> {
    if (this.servers.has(address)) return;
    const listener = createListener((socket) => {
      this.connections.add(socket);
      socket.on('close', () => this.connections.delete(socket));
      if (take === undefined) this.http.emit('connection', socket);
      else take(socket);
    });
    this.servers.set(address, listener);
    await new Promise<void>((resolve, reject) => listener.once('error', reject).listen(port, address, 1_024, resolve));
  }

  close(address: string): void {
    this.servers.get(address)?.close();
    this.servers.delete(address);
  }

  closeAll(): void {
    for (const address of this.servers.keys()) this.close(address);
    for (const socket of this.connections) socket.destroy();
  }
}
