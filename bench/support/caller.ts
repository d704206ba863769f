import { Agent, request } from 'node:http';

import type { AnyBody } from '../../test/support/started-service.ts';

export interface Answered {
  /** The status of the response; 0 if there was none. */
  status: number;
  body: AnyBody;
  headers: Record<string, string | string[] | undefined>;
  ms: number;
}

const PATIENCE_MS = 150_000;
/** The most repetitions of a call that was refused for its rate. */
const RATE_TRIES = 200;

/** Calls one service as one account, over keep-alive connections. */
export class Caller {
  private readonly connections = new Agent({ keepAlive: true });

  constructor(
    /** The address, which changes when the service is started again. */
    private readonly url: () => string,
    private readonly token: string,
  ) {}

  /** Sends one request. It never throws: a broken connection is reported as status 0. */
  call(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answered> {
    const began = performance.now();
    const text = body === undefined ? undefined : JSON.stringify(body);
    const all = {
      authorization: `Bearer ${this.token}`,
      ...(text === undefined ? {} : { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(text)) }),
      ...headers,
    };
    return new Promise((resolve) => {
      const none = () => resolve({ status: 0, body: null, headers: {}, ms: performance.now() - began });
      const call = request(`${this.url()}${path}`, { method, headers: all, agent: this.connections, timeout: PATIENCE_MS }, (answer) => {
        const chunks: Buffer[] = [];
        answer.on('data', (chunk: Buffer) => chunks.push(chunk));
        answer.on('error', none);
        answer.on('end', () => {
          const ms = performance.now() - began;
          resolve({ status: answer.statusCode ?? 0, body: parsed(Buffer.concat(chunks)), headers: answer.headers, ms });
        });
      });
      call.on('timeout', () => call.destroy());
      call.on('error', none);
      call.end(text);
    });
  }

  /** Sends one request, and repeats it while the service answers 429. Throws on any other status than 2xx. */
  async done(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answered> {
    for (let tries = 0; ; tries++) {
      const answer = await this.call(method, path, body, headers);
      if (answer.status >= 200 && answer.status < 300) return answer;
      if (answer.status !== 429 || tries >= RATE_TRIES)
        throw new Error(`${method} ${path} answered ${answer.status}: ${JSON.stringify(answer.body)}`);
      await new Promise((resolve) => setTimeout(resolve, Math.min(5, Number(answer.headers['retry-after'] ?? 1)) * 1_000));
    }
  }

  close(): void {
    this.connections.destroy();
  }
}

function parsed(bytes: Buffer): AnyBody {
  if (bytes.length === 0) return null;
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch {
    return bytes.toString('utf8');
  }
}
