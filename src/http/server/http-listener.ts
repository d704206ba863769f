import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';

import { pause } from '../../kernel/async/pause.ts';
import { newId } from '../../kernel/ids.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import type { AwaitedStore } from '../../kernel/startup.ts';
import type { ReadinessDto } from '../health/health.dto.ts';
import { routeUpgrades } from '../requests/upgrades.ts';
import { toProblem } from '../responses/problems.ts';

const PORT_RETRY_MS = 100;

const sentences: Record<AwaitedStore | 'start', string> = {
  start: 'The service is starting.',
  database: 'The service is starting, and waits for its database, which does not answer.',
  event_store: 'The service is starting, and waits for its event store, which does not answer.',
};

/**
 * The HTTP server. It may listen before the application exists, and then responds by itself: to `/health` with 200, and to everything else
 * with 503.
 */
export class HttpListener {
  readonly server: Server;
  private application: RequestListener | null = null;
  private isOpen = false;
  private awaited: AwaitedStore | null = null;

  constructor() {
    const bounds = { requireHostHeader: false, maxHeaderSize: 16_384, headersTimeout: 10_000, connectionsCheckingInterval: 2_000 };
    // The request timeout bounds an upload of 100 MB; JSON bodies have a shorter timeout of their own.
    const listener: RequestListener = (request, response) => {
      if (this.isOpen) this.application?.(request, response);
      else this.respond(request, response);
    };
    this.server = createServer({ ...bounds, requestTimeout: 600_000, keepAliveTimeout: 65_000 }, listener);
    routeUpgrades(this.server, listener);
  }

  /** Listens. If another program uses the port, tries again for `patienceMs`, after one call of `onTaken`. */
  async listen(port: number, host: string, patienceMs: number, onTaken: () => void): Promise<void> {
    const deadline = performance.now() + patienceMs;
    for (let told = false; ; told = true) {
      try {
        await new Promise<void>((resolve, reject) => {
          this.server.once('error', reject);
          this.server.listen({ port, host }, () => {
            this.server.off('error', reject);
            resolve();
          });
        });
        return;
      } catch (error) {
        if ((error as { code?: unknown }).code !== 'EADDRINUSE' || performance.now() > deadline) throw error;
        if (!told) onTaken();
        await pause(PORT_RETRY_MS);
      }
    }
  }

  /** Sets the application's listener, which gets requests only after `open`. */
  attach(application: RequestListener): Server {
    this.application = application;
    return this.server;
  }

  /** Passes all further requests to the application. */
  open(): void {
    this.isOpen = true;
  }

  /** Sets the store that the start waits for; null if it waits for none. */
  showWaitingFor(store: AwaitedStore | null): void {
    this.awaited = store;
  }

  private respond(request: IncomingMessage, response: ServerResponse): void {
    const requestId = newId();
    const path = (request.url ?? '').split('?', 1)[0];
    const looks = request.method === 'GET' || request.method === 'HEAD';
    const { status, headers, body } =
      looks && path === '/health'
        ? { status: 200, headers: JSON_HEADERS, body: { status: 'ok', runtime: 'fleet' } }
        : looks && path === '/ready'
          ? { status: 503, headers: JSON_HEADERS, body: this.readiness() }
          : toProblem(new ProblemError('event_store_unavailable', this.sentence()), requestId);
    const text = JSON.stringify(body);
    // No connection is kept alive, and no body is read: the next request gets the application or this response.
    const common = { 'x-request-id': requestId, 'x-content-type-options': 'nosniff', connection: 'close' };
    response.writeHead(status, { ...headers, ...common, 'content-length': Buffer.byteLength(text) });
    response.end(request.method === 'HEAD' ? undefined : text);
  }

  private readiness(): ReadinessDto {
    const dependency = { name: this.awaited ?? 'start', status: 'unavailable' as const, required: true, detail: this.sentence() };
    return { status: 'unavailable', dependencies: [dependency] };
  }

  private sentence(): string {
    return sentences[this.awaited ?? 'start'];
  }
}

const JSON_HEADERS = { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' };
