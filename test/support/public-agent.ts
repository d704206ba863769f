import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

import { WebSocketServer } from 'ws';

import { answersOfAHostileAgent } from './hostile-agent.ts';

const MIB = 1_048_576;
/** The piece of which the large bodies consist. */
const piece = Buffer.alloc(MIB, 'agent');

/** A request as the agent's program received it. */
export interface Seen {
  method: string;
  url: string;
  headers: Record<string, string>;
}

/** The program of a public agent: it serves what web servers serve, and everything that a hostile one sends. */
export class PublicAgent {
  readonly seen: Seen[] = [];
  /** The responses that are open until the test ends them, by path. */
  readonly held = new Map<string, ServerResponse>();
  /** The connections that requested another protocol. */
  readonly upgraded: Socket[] = [];
  private latest: { socket: Socket; sentBefore: number } | null = null;
  private readonly sockets = new WebSocketServer({ noServer: true });

  private constructor(private readonly server: Server) {
    server.on('request', (request, response) => void this.answer(request, response).catch(() => response.destroy()));
    server.on('upgrade', (request: IncomingMessage, socket: Socket, head) => {
      this.note(request);
      this.upgraded.push(socket);
      socket.on('error', () => undefined);
      if (request.url === '/refuse') return void socket.end('HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno');
      if (request.url === '/raw')
        return void socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n');
      this.sockets.handleUpgrade(request, socket, head, (peer) => {
        peer.on('message', (data, isBinary) => peer.send(data, { binary: isBinary }));
      });
    });
  }

  static async start(): Promise<PublicAgent> {
    const server = createServer({ requestTimeout: 0 });
    const agent = new PublicAgent(server);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return agent;
  }

  get address(): { host: string; port: number } {
    return { host: '127.0.0.1', port: (this.server.address() as AddressInfo).port };
  }

  /** The number of bytes that it could send since the last request, including those that the system buffers. */
  get sentBytes(): number {
    return this.latest === null ? 0 : this.latest.socket.bytesWritten - this.latest.sentBefore;
  }

  /** Returns the last request to the path. */
  last(url: string): Seen | undefined {
    return this.seen.findLast((one) => one.url === url);
  }

  async stop(): Promise<void> {
    this.server.close();
    this.server.closeAllConnections();
    for (const socket of this.upgraded) socket.destroy();
    await once(this.server, 'close');
  }

  private note({ method = '', url = '', headers, socket }: IncomingMessage): void {
    this.latest = { socket, sentBefore: socket.bytesWritten };
    this.seen.push({ method, url, headers: headers as Record<string, string> });
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.note(request);
    const { url = '' } = request;
    const hostile = (answersOfAHostileAgent as Record<string, ((socket: Socket) => void) | undefined>)[decodeURIComponent(url.slice(1))];
    if (hostile !== undefined) return hostile(request.socket);
    if (url.startsWith('/down')) return this.sends(response, Number(new URL(url, 'http://x').searchParams.get('mib')));
    if (url === '/up') return this.takes(request, response);
    if (url === '/echo') return void request.pipe(response);
    if (url === '/hold') return void this.held.set(url, response);
    if (url === '/events') {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('retry: 10\n\n');
      return void this.held.set(url, response);
    }
    if (url.startsWith('/status/'))
      return void response.writeHead(Number(url.slice(8)), { location: '/next', 'set-cookie': 'a=b; Path=/' }).end('body');
    if (url === '/v1/chat/completions') return completion(response);
    response.end(`${request.method} ${url}`);
  }

  private async sends(response: ServerResponse, mib: number): Promise<void> {
    for (let sent = 0; sent < mib; sent += 1) if (!response.write(piece)) await once(response, 'drain');
    response.end();
  }

  private async takes(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const hash = createHash('sha256');
    for await (const bytes of request) hash.update(bytes as Buffer);
    response.end(hash.digest('hex'));
  }
}

/** Returns the SHA-256 of a large body of so many MiB, in hex. */
export function hashOfLarge(mib: number): string {
  const hash = createHash('sha256');
  for (let n = 0; n < mib; n += 1) hash.update(piece);
  return hash.digest('hex');
}

/** Returns a large body of so many MiB. */
export async function* large(mib: number): AsyncGenerator<Buffer> {
  for (let n = 0; n < mib; n += 1) yield piece;
}

/** Streams a reply of a model as the OpenAI API does. */
function completion(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (const content of ['Hel', 'lo']) {
    const chunk = {
      id: 'c',
      object: 'chat.completion.chunk',
      created: 1,
      model: 'm',
      choices: [{ index: 0, delta: { content }, finish_reason: null }],
    };
    response.write(`data: ${JSON.stringify(chunk)}\n\n`);
  }
  response.end('data: [DONE]\n\n');
}
