import { Logger } from '@nestjs/common';
import pg from 'pg';

import { Backoff } from '../../kernel/async/retry.ts';

type OnNotify = (payload: string) => void;

/** The first and the longest wait between attempts to reconnect, in ms; the wait doubles each time. */
const FIRST_RETRY_MS = 50;
const LAST_RETRY_MS = 5_000;

const logger = new Logger('Database');

/** One connection that listens for all listeners, and reconnects by itself while there is one. */
export class NotificationListener {
  private readonly listeners = new Map<string, Set<OnNotify>>();
  private readonly stop = new AbortController();
  private client: pg.Client | null = null;
  private connecting: Promise<void> | null = null;
  private reconnecting: Promise<void> | null = null;

  constructor(private readonly newClient: () => pg.Client) {}

  async listen(channel: string, onNotify: OnNotify): Promise<() => Promise<void>> {
    if (this.stop.signal.aborted) throw new Error('the database is closed');
    const first = !this.listeners.has(channel);
    const all = this.listeners.get(channel) ?? new Set();
    // Each listener gets a wrapper of its own, so that the same function may listen twice.
    const entry: OnNotify = (payload) => onNotify(payload);
    this.listeners.set(channel, all.add(entry));
    // A failure does not reach the caller: the connection is opened again, and then listens to every channel.
    if (this.client === null) await this.connect().catch(() => this.scheduleReconnect());
    else if (first) await this.client.query(`listen ${pg.escapeIdentifier(channel)}`).catch(() => undefined);
    return async () => {
      if (!all.delete(entry) || all.size > 0) return;
      this.listeners.delete(channel);
      await this.client?.query(`unlisten ${pg.escapeIdentifier(channel)}`).catch(() => undefined);
    };
  }

  async close(): Promise<void> {
    this.stop.abort();
    this.listeners.clear();
    await this.reconnecting;
    await this.connecting?.catch(() => undefined);
    await this.client?.end().catch(() => undefined);
    this.client = null;
  }

  private connect(): Promise<void> {
    this.connecting ??= this.tryToConnect().finally(() => (this.connecting = null));
    return this.connecting;
  }

  private async tryToConnect(): Promise<void> {
    const client = this.newClient();
    client.on('error', (error) => this.onConnectionLost(client, error));
    client.on('end', () => this.onConnectionLost(client, null));
    client.on('notification', ({ channel, payload }) => this.dispatch(channel, payload ?? ''));
    try {
      await client.connect();
      for (const channel of this.listeners.keys()) await client.query(`listen ${pg.escapeIdentifier(channel)}`);
    } catch (error) {
      void client.end().catch(() => undefined);
      throw error;
    }
    this.client = client;
  }

  private onConnectionLost(client: pg.Client, error: Error | null): void {
    if (this.client !== client) return;
    this.client = null;
    void client.end().catch(() => undefined);
    if (this.stop.signal.aborted) return;
    logger.warn(`The listening connection was lost: ${error?.message ?? 'closed by the server'}`);
    this.scheduleReconnect();
  }

  private scheduleReconnect(): void {
    this.reconnecting ??= this.reconnect().finally(() => (this.reconnecting = null));
  }

  private async reconnect(): Promise<void> {
    const backoff = new Backoff({ firstMs: FIRST_RETRY_MS, lastMs: LAST_RETRY_MS });
    while (!this.stop.signal.aborted) {
      await backoff.pause(this.stop.signal, { ref: false });
      if (this.stop.signal.aborted || this.client !== null || this.listeners.size === 0) return;
      try {
        await this.connect();
        // Notifications were lost while the connection was down, so an empty payload tells all listeners to check once.
        for (const channel of this.listeners.keys()) this.dispatch(channel, '');
        return;
      } catch (error) {
        logger.debug(`Listening again failed: ${(error as Error).message}`);
      }
    }
  }

  private dispatch(channel: string, payload: string): void {
    for (const onNotify of this.listeners.get(channel) ?? []) {
      try {
        onNotify(payload);
      } catch (error) {
        logger.error(`A listener on ${channel} threw`, (error as Error).stack);
      }
    }
  }
}
