import { Logger } from '@nestjs/common';
import type pg from 'pg';
import { pause } from '../../../kernel/async/pause.ts';
import type { RetentionStatus } from '../event-store.ts';
import { runIdempotent } from './sending.ts';

const TRIM_EVERY_MS = 60_000;
/** The most and the fewest events that one transaction examines. A failure halves the number, and a success doubles it. */
const BATCH_MAX = 5_000;
const BATCH_MIN = 50;
/**
 * The longest pause between two transactions in the background, in ms: appends get the disk to themselves for as long as trimming used it,
 * up to this.
 */
const REST_MS_MAX = 250;

/** Removes log events that are past their retention, in short transactions: every minute, and on request. */
export class LogTrimmer {
  private readonly logger = new Logger('EventStore');
  private readonly timer: NodeJS.Timeout;
  private readonly stopping = new AbortController();
  private inBackground: Promise<void> = Promise.resolve();
  private isTrimming = false;
  private batch = BATCH_MAX;
  private removed = 0;
  private error: string | null = null;

  constructor(
    private readonly pool: pg.Pool,
    everyMs = TRIM_EVERY_MS,
  ) {
    this.timer = setInterval(() => {
      if (!this.isTrimming) this.inBackground = this.trimInBackground();
    }, everyMs).unref();
  }

  /**
   * Trims until nothing is left to remove, or while another process trims. Returns the number of events removed. `rest` is called between
   * two transactions with the duration of the last one.
   */
  async trim(rest?: (batchMs: number) => Promise<void>): Promise<number> {
    let total = 0;
    for (let more = true; more && !this.stopping.signal.aborted;) {
      const began = performance.now();
      const answer = await this.step();
      total += answer?.forgotten ?? 0;
      more = answer?.more ?? false;
      if (more) await rest?.(performance.now() - began);
    }
    this.error = null;
    return total;
  }

  /** Removes the stream's events before the revision, except the last. */
  async truncate(stream: string, before: number): Promise<void> {
    const text = 'select public.es_log_truncate($1, $2, $3)';
    for (let forgotten = BATCH_MAX; forgotten === BATCH_MAX;) {
      const rows = await runIdempotent<[number]>(this.pool, { name: 'truncate stream', text, values: [stream, before, BATCH_MAX] });
      forgotten = rows[0]?.[0] ?? 0;
      this.removed += forgotten;
    }
  }

  async status(): Promise<RetentionStatus> {
    const text = 'select min(caught_up_at) from public.es_log_retention';
    const rows = await runIdempotent<[Date | null]>(this.pool, { name: 'retention status', text, values: [] });
    return { caughtUpAt: rows[0]?.[0]?.toISOString() ?? null, removed: this.removed, error: this.error };
  }

  /** Stops trimming, and waits for the transaction in flight. */
  async stop(): Promise<void> {
    clearInterval(this.timer);
    this.stopping.abort();
    await this.inBackground;
  }

  /** Runs one transaction. Returns null if another process is trimming. */
  private async step(): Promise<{ forgotten: number; more: boolean } | null> {
    try {
      const text = 'select public.es_log_forget($1)';
      const rows = await runIdempotent<[{ forgotten: number; more: boolean } | null]>(this.pool, {
        name: 'trim',
        text,
        values: [this.batch],
      });
      const answer = rows[0]?.[0] ?? null;
      this.removed += answer?.forgotten ?? 0;
      this.batch = Math.min(BATCH_MAX, this.batch * 2);
      return answer;
    } catch (error) {
      this.batch = Math.max(BATCH_MIN, Math.floor(this.batch / 2));
      throw error;
    }
  }

  private async trimInBackground(): Promise<void> {
    this.isTrimming = true;
    const { signal } = this.stopping;
    try {
      await this.trim((batchMs) => pause(Math.min(batchMs, REST_MS_MAX), signal));
    } catch (error) {
      this.error = (error as Error).message;
      const cause = (error as Error).cause;
      this.logger.error(
        `Old container output could not be removed from es_log_event: ${this.error}${cause instanceof Error ? ` (${cause.message})` : ''}. ` +
          `It is tried again within a minute, ${this.batch} events at a time; until it succeeds the table grows. ` +
          'If this goes on, look for long transactions and locks on the table (pg_stat_activity, pg_locks) and for a full or slow disk.',
      );
    } finally {
      this.isTrimming = false;
    }
  }
}
