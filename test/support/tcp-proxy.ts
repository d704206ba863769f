import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/** A proxy with a fixed address in front of a server that stops and starts, and a network that can fail on demand. */
export class TcpProxy {
  /** The port to which connections go; null refuses them. */
  target: number | null = null;
  /** While the value is true, the server receives everything but its responses are lost. */
  losesAnswers = false;
  /** Called with what a client sends, before the server gets it. */
  onSent: (bytes: Buffer) => void = () => undefined;
  /** The number of connections that were refused. */
  refused = 0;
  /** The number of response bytes that were lost. */
  lost = 0;
  private readonly sockets = new Set<Socket>();

  private constructor(private readonly server: Server) {
    server.on('connection', (socket) => this.forward(socket));
  }

  static async start(): Promise<TcpProxy> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return new TcpProxy(server);
  }

  /** Returns the address with the port of the proxy. */
  through(address: string): string {
    const url = new URL(address);
    url.port = String((this.server.address() as AddressInfo).port);
    return url.href;
  }

  /** Breaks every connection. */
  cut(): void {
    for (const socket of this.sockets) socket.destroy();
  }

  async close(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private forward(client: Socket): void {
    if (this.target === null) {
      this.refused += 1;
      client.destroy();
      return;
    }
    const server = connect(this.target, '127.0.0.1');
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        this.sockets.delete(socket);
        other.destroy();
      });
    }
    client.on('data', (bytes) => {
      this.onSent(bytes);
      server.write(bytes);
    });
    server.on('data', (bytes) => {
      if (this.losesAnswers) this.lost += bytes.length;
      else client.write(bytes);
    });
  }
}
