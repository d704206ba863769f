import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { request, type IncomingMessage, type ServerResponse } from 'node:http';

const SOCKET = '/var/run/docker.sock';

/** The machine's own engine, to which the stand-in passes requests for chosen images. */
export class RealEngine {
  /** Forwards the request unchanged, and streams the response back. */
  pass(asked: IncomingMessage, response: ServerResponse, body: Buffer | null = null): void {
    const { host: _host, ...headers } = asked.headers;
    const passed = request({ socketPath: SOCKET, path: asked.url, method: asked.method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers).flushHeaders();
      answer.pipe(response);
    });
    passed.on('error', () => response.destroy());
    response.on('close', () => passed.destroy());
    if (body === null) asked.pipe(passed);
    else passed.end(body);
  }

  /** Forwards a request whose connection is taken over, and connects both sides. */
  tunnel(asked: IncomingMessage, socket: Duplex): void {
    const engine = connect(SOCKET);
    const headers = asked.rawHeaders.flatMap((name, at) => (at % 2 === 0 ? [`${name}: ${asked.rawHeaders[at + 1]}\r\n`] : []));
    engine.write(`${asked.method} ${asked.url} HTTP/1.1\r\n${headers.join('')}\r\n`);
    engine.on('error', () => socket.destroy()).pipe(socket);
    socket.on('error', () => engine.destroy()).pipe(engine);
  }

  /** Sends a request of the stand-in itself. */
  async ask(method: string, path: string, body?: unknown): Promise<{ status: number; body: unknown }> {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      const headers = text === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) };
      request({ socketPath: SOCKET, path, method, headers }, resolve).on('error', reject).end(text);
    });
    let said = '';
    for await (const chunk of answer) said += String(chunk);
    return { status: answer.statusCode ?? 0, body: said === '' ? null : (JSON.parse(said) as unknown) };
  }

  /** Copies the engine's events, line by line, to the response until that is closed. */
  follow(path: string, response: ServerResponse): void {
    const asking = request({ socketPath: SOCKET, path }, (answer) => {
      let rest = '';
      answer.on('data', (chunk: Buffer) => {
        const lines = (rest + chunk.toString('utf8')).split('\n');
        rest = lines.pop() ?? '';
        for (const line of lines) response.write(`${line}\n`);
      });
      answer.on('error', () => undefined);
    });
    asking.on('error', () => undefined).end();
    response.on('close', () => asking.destroy());
  }
}
