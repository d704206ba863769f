import { AsyncLocalStorage } from 'node:async_hooks';
import type { Server } from 'node:http';

import pg from 'pg';

export interface Statement {
  route: string;
  text: string;
  values: unknown[];
}

type Listener = (...parts: unknown[]) => void;
type Query = (this: pg.Client, ...parts: unknown[]) => unknown;

/** Records the statements that requests to a server of this process send to its database, without those of the service's own work. */
export class Statements {
  readonly seen: Statement[] = [];
  private readonly of = new AsyncLocalStorage<string>();
  // oxlint-disable-next-line typescript/unbound-method -- it is called with the client as `this`, and put back by `stop`
  private readonly query = pg.Client.prototype.query as unknown as Query;
  private route = '';

  constructor(server: Server) {
    const listeners = server.listeners('request') as Listener[];
    server.removeAllListeners('request');
    for (const listener of listeners)
      server.on('request', (...parts: unknown[]) => this.of.run(this.route, () => listener.apply(server, parts)));
    const note = (first: unknown, second: unknown) => this.note(first, second);
    const original = this.query;
    pg.Client.prototype.query = function noted(this: pg.Client, ...parts: unknown[]) {
      note(parts[0], parts[1]);
      return original.apply(this, parts);
    } as unknown as typeof pg.Client.prototype.query;
  }

  /** Records the statements of this time under the route's name. */
  async during(route: string, work: () => Promise<void>): Promise<void> {
    this.route = route;
    await work();
    this.route = '';
  }

  stop(): void {
    pg.Client.prototype.query = this.query as unknown as typeof pg.Client.prototype.query;
  }

  private note(first: unknown, second: unknown): void {
    const route = this.of.getStore();
    const { text, values } = typeof first === 'string' ? { text: first, values: second } : (first as { text?: string; values?: unknown });
    if (!route || typeof text !== 'string' || !/^\s*(select|with|insert|update|delete)\b/i.test(text)) return;
    this.seen.push({ route, text, values: Array.isArray(values) ? values : [] });
  }
}
