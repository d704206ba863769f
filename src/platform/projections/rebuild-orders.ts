import type { Aggregates } from '../event-store/aggregates.ts';
import { systemContext } from '../http/caller.ts';
import { rebuildDecider, rebuildStream, type RebuildCommand } from './rebuild.decider.ts';

/** How long an order may stay unseen where nobody told of it, ms. */
const LOOK_EVERY_MS = 30_000;
const REASON_MAX = 500;

/** What was asked of one version of a projection, as its stream says: the promise is there, and so is the record of what became of it. */
export class RebuildOrders {
  /** Grows with whatever may have been asked or canceled. */
  heard = 0;
  private readonly waiting = new Set<() => void>();

  constructor(
    private readonly aggregates: Aggregates,
    /** As `tableOf` names it. */
    private readonly table: string,
  ) {}

  /** The rebuild that is wanted. */
  async wanted(): Promise<string | null> {
    const { state } = await this.aggregates.load(rebuildStream(this.table), rebuildDecider);
    return state.running;
  }

  /** Something may have been asked or canceled. */
  hear(): void {
    this.heard += 1;
    for (const wake of this.waiting) wake();
  }

  /** Resolves when there may be something new since `heard` was so much, or the signal aborts. */
  async news(since: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted || this.heard !== since) return;
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

  /** Calls back once the rebuild is not wanted any more; until the signal aborts. */
  async whenCanceled(rebuildId: string, signal: AbortSignal, onCanceled: () => void): Promise<void> {
    while (!signal.aborted) {
      const since = this.heard;
      const wanted = await this.wanted().catch(() => rebuildId);
      if (wanted !== rebuildId) return onCanceled();
      await this.news(since, signal);
    }
  }

  rebuilt(rebuildId: string): Promise<void> {
    return this.record({ type: 'RecordRebuilt', rebuildId });
  }

  failed(rebuildId: string, reason: string): Promise<void> {
    return this.record({ type: 'RecordFailure', rebuildId, reason: reason.slice(0, REASON_MAX) });
  }

  private async record(command: RebuildCommand): Promise<void> {
    await this.aggregates.execute(rebuildStream(this.table), rebuildDecider, command, systemContext('projections', null));
  }
}
