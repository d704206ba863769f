import type { Aggregates } from '../../event-store/aggregates.ts';
import { systemContext } from '../../context/command-context.ts';
import { rebuildDecider, rebuildStream, type RebuildCommand } from './rebuild.decider.ts';

/** The longest time for which an order stays unseen if its notification was lost, ms. */
const LOOK_EVERY_MS = 30_000;
const REASON_MAX = 500;

/** The rebuild orders for one version of a projection, from its stream, which also records how each rebuild ended. */
export class RebuildOrders {
  /** The number of times that something may have been ordered or canceled. */
  changes = 0;
  private readonly waiting = new Set<() => void>();

  constructor(
    private readonly aggregates: Aggregates,
    /** The table's name from `tableOf`. */
    private readonly table: string,
  ) {}

  /** Returns the id of the ordered rebuild that is not over, or null. */
  async current(): Promise<string | null> {
    const { state } = await this.aggregates.load(rebuildStream(this.table), rebuildDecider);
    return state.running;
  }

  /** Notes that something may have been ordered or canceled, and wakes those that wait for news. */
  notify(): void {
    this.changes += 1;
    for (const wake of this.waiting) wake();
  }

  /** Resolves when `changes` no longer equals `since`, after 30 s at most, or when the signal aborts. */
  async waitForChange(since: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted || this.changes !== since) return;
    await new Promise<void>((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.waiting.delete(wake);
        signal.removeEventListener('abort', wake);
        resolve();
      };
      const timer = setTimeout(wake, LOOK_EVERY_MS);
      this.waiting.add(wake);
      signal.addEventListener('abort', wake);
    });
  }

  /** Calls back once the rebuild is no longer ordered, unless the signal aborts first. */
  async whenCanceled(rebuildId: string, signal: AbortSignal, onCanceled: () => void): Promise<void> {
    while (!signal.aborted) {
      const since = this.changes;
      const wanted = await this.current().catch(() => rebuildId);
      if (wanted !== rebuildId) return onCanceled();
      await this.waitForChange(since, signal);
    }
  }

  recordSuccess(rebuildId: string): Promise<void> {
    return this.record({ type: 'RecordRebuilt', rebuildId });
  }

  recordFailure(rebuildId: string, reason: string): Promise<void> {
    return this.record({ type: 'RecordFailure', rebuildId, reason: reason.slice(0, REASON_MAX) });
  }

  private async record(command: RebuildCommand): Promise<void> {
    await this.aggregates.execute(rebuildStream(this.table), rebuildDecider, command, systemContext('projections', null));
  }
}
