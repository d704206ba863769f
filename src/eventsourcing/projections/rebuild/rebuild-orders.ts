import { Logger } from '@nestjs/common';

import { Backoff } from '../../../kernel/async/retry.ts';
import type { Aggregates } from '../../aggregates/aggregates.ts';
import { UnknownEvent } from '../../event-store/event-catalogue.ts';
import { systemContext } from '../../../kernel/context/command-context.ts';
import { LeaseLost, PoisonEvent } from '../tables/read-model-table.ts';
import { rebuildDecider, rebuildStream, type RebuildCommand } from './rebuild.decider.ts';

/** The longest time until an order is noticed if its notification was lost, in ms. */
const POLL_INTERVAL_MS = 30_000;
/** The first pause before a failed rebuild is repeated, in ms. It doubles up to the last. */
const FIRST_RETRY_MS = 100;
const LAST_RETRY_MS = 5_000;
const REASON_MAX = 500;

/** Rebuilds the rows. The signal aborts when the order is canceled. */
export type Rebuild = (rebuildId: string, signal: AbortSignal) => Promise<void>;

/** The rebuild orders for one version of a projection, from its stream, which also records how each rebuild ended. */
export class RebuildOrders {
  private readonly logger = new Logger('Projections');
  /** The number of times that an order may have been placed or canceled. */
  private changes = 0;
  private readonly waiting = new Set<() => void>();

  constructor(
    private readonly aggregates: Aggregates,
    /** The table's name from `tableOf`. */
    private readonly table: string,
  ) {}

  /** Notes that an order may have been placed or canceled, and wakes those that wait for one. */
  notify(): void {
    this.changes += 1;
    for (const wake of this.waiting) wake();
  }

  /**
   * Executes the orders until the signal aborts or, with `once`, until one has succeeded, and records how each ended. A `PoisonEvent` or an
   * `UnknownEvent` ends an order as failed; after any other error it is repeated. Throws `LeaseLost`.
   */
  async serve(rebuild: Rebuild, until: AbortSignal, once: boolean): Promise<void> {
    const backoff = new Backoff({ firstMs: FIRST_RETRY_MS, lastMs: LAST_RETRY_MS });
    while (!until.aborted) {
      try {
        const since = this.changes;
        const rebuildId = await this.current();
        if (rebuildId === null) await this.waitForChange(since, until);
        else if ((await this.execute(rebuildId, rebuild, until)) && once) return;
        backoff.reset();
      } catch (error) {
        if (until.aborted || error instanceof LeaseLost) throw error;
        this.logger.warn(`The rebuild of ${this.table} is tried again in ${backoff.ms} ms: ${(error as Error).message}`);
        await backoff.pause(until);
      }
    }
  }

  /** Executes the order. Returns whether rebuilt rows serve now. */
  private async execute(rebuildId: string, rebuild: Rebuild, until: AbortSignal): Promise<boolean> {
    const canceled = new AbortController();
    const watching = new AbortController();
    const watched = this.whenCanceled(rebuildId, AbortSignal.any([until, watching.signal]), () => canceled.abort(new RebuildCanceled()));
    try {
      await rebuild(rebuildId, AbortSignal.any([until, canceled.signal]));
    } catch (error) {
      if (error instanceof RebuildCanceled) {
        this.logger.log(`The rebuild of ${this.table} was canceled`);
        return false;
      }
      if (!(error instanceof PoisonEvent || error instanceof UnknownEvent)) throw error;
      await this.record({ type: 'RecordFailure', rebuildId, reason: error.message.slice(0, REASON_MAX) });
      return false;
    } finally {
      watching.abort();
      await watched;
    }
    await this.record({ type: 'RecordRebuilt', rebuildId });
    return true;
  }

  /** Returns the id of the rebuild that is ordered and has not ended, or null. */
  private async current(): Promise<string | null> {
    const { state } = await this.aggregates.load(rebuildStream(this.table), rebuildDecider);
    return state.running;
  }

  /** Resolves when `changes` no longer equals `since`, after 30 s at most, or when the signal aborts. */
  private async waitForChange(since: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted || this.changes !== since) return;
    await new Promise<void>((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.waiting.delete(wake);
        signal.removeEventListener('abort', wake);
        resolve();
      };
      const timer = setTimeout(wake, POLL_INTERVAL_MS);
      this.waiting.add(wake);
      signal.addEventListener('abort', wake);
    });
  }

  /** Calls back once the rebuild is no longer ordered, unless the signal aborts first. */
  private async whenCanceled(rebuildId: string, signal: AbortSignal, onCanceled: () => void): Promise<void> {
    while (!signal.aborted) {
      const since = this.changes;
      const current = await this.current().catch(() => rebuildId);
      if (current !== rebuildId) return onCanceled();
      await this.waitForChange(since, signal);
    }
  }

  private async record(command: RebuildCommand): Promise<void> {
    await this.aggregates.execute(rebuildStream(this.table), rebuildDecider, command, systemContext('projections', null));
  }
}

/** The order was canceled. */
class RebuildCanceled extends Error {}
