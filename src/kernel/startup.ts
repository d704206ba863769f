import { Logger } from '@nestjs/common';

import { pause } from './async/pause.ts';
import { retry } from './async/retry.ts';

/** A store that the service needs to start. */
export type AwaitedStore = 'database' | 'event_store';

export interface StartupOptions {
  /** Called with the store that does not respond, and with null as soon as it does. */
  onChange?: (store: AwaitedStore | null) => void;
  /** Cancels waiting for a store. */
  signal?: AbortSignal;
}

/** The first and the longest wait between two attempts, in ms. */
const FIRST_RETRY_MS = 250;
const LAST_RETRY_MS = 5_000;
/** The longest time that closing takes after a start has failed, in ms. */
const CLOSE_MS = 5_000;

const logger = new Logger('Start');

/** Lets a start wait for stores that do not respond yet, and closes what it has opened if it fails. */
export class Startup {
  private readonly closers: (() => Promise<void>)[] = [];

  constructor(private readonly options: StartupOptions = {}) {}

  /**
   * Returns the result of `attempt`, which is repeated while it fails because the store is unavailable. Any other error is thrown
   * immediately. A reason is logged once, not at every attempt.
   */
  async until<T>(store: AwaitedStore, isAway: (error: unknown) => boolean, attempt: () => Promise<T>): Promise<T> {
    const { onChange, signal } = this.options;
    let logged: string | null = null;
    const result = await retry(attempt, {
      firstMs: FIRST_RETRY_MS,
      lastMs: LAST_RETRY_MS,
      signal,
      mayPass: isAway,
      onRetry: (error) => {
        onChange?.(store);
        const reason = reasonOf(error);
        if (reason !== logged) logger.warn(`The start waits for the ${store === 'database' ? 'database' : 'event store'}: ${reason}`);
        logged = reason;
      },
    });
    onChange?.(null);
    return result;
  }

  /** Registers how to close something that the start has opened, since the framework closes nothing after a failed start. */
  opened(close: () => Promise<void>): void {
    this.closers.unshift(close);
  }

  /** Closes everything that was opened, in reverse order, after the start has failed. Never throws; returns after 5 s at the latest. */
  async failed(): Promise<void> {
    const isOver = new AbortController();
    await Promise.race([this.close(), pause(CLOSE_MS, isOver.signal)]);
    isOver.abort();
  }

  private async close(): Promise<void> {
    for (const close of this.closers)
      await close().catch((error: Error) => logger.error('A part of the service failed while closing', error.stack));
  }
}

function reasonOf(error: unknown): string {
  const { message, code, cause } = error as Error & { code?: string };
  const own = message === '' ? (code ?? 'no answer') : message;
  return cause instanceof Error ? `${own} (${cause.message})` : own;
}
