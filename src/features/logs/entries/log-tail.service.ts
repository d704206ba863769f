/*
 * Delivers new log entries to the readers that follow an agent's log, as they are appended.
 *
 * It owns the readers of this process and their buffers, and one subscription to the log for each event class, shared by all readers. It
 * does not own the stored entries (the read models), filters, or the HTTP stream.
 *
 * Invariants:
 * T1. A reader misses no entry: when `follow` resolves, every entry that is not delivered here is in the read models, from which the caller
 *     reads it.
 * T2. A reader's buffer is bounded. One that is more than LAG_ENTRIES_MAX entries behind is dropped, and its stream is ended.
 * T3. Entries are computed by the same projections that fill the read models, so a followed entry and a stored one are equal.
 * T4. The subscriptions end only at an event that this program can't read. All readers are then dropped, and connect again after that
 *     event.
 */

import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import {
  EventStore,
  onlyEvents,
  type Position,
  type StoredEvent,
  type Subscription,
} from '../../../eventsourcing/event-store/event-store.ts';
import { EventCatalogue } from '../../../eventsourcing/event-store/event-catalogue.ts';
import { ReadModels, type Projection } from '../../../eventsourcing/projections/projection.ts';
import { entryOf, type LogEntry, type LogTable } from './logs.table.ts';
import { journalAgentOf, journalProjection, logLinesProjection } from './logs.projection.ts';

/** The number of entries that a slow reader may lag behind before its stream is ended. */
const LAG_ENTRIES_MAX = 5_000;

interface Reader {
  agentId: string;
  waiting: LogEntry[];
  ended: boolean;
  wake: () => void;
  /** Ends the HTTP stream of a reader that is too slow. */
  onTooSlow: () => void;
}

/** Delivers new log entries to the readers that follow them. All readers share one subscription for each event class. */
@Injectable()
export class LogTail implements OnApplicationShutdown {
  private readonly readers = new Set<Reader>();
  private readonly projections: Projection<LogTable>[];
  private subscriptions: Promise<Subscription[]> | null = null;

  constructor(
    private readonly events: EventStore,
    private readonly readModels: ReadModels,
    catalogue: EventCatalogue,
  ) {
    this.projections = [logLinesProjection, journalProjection((stored) => catalogue.summaryOf(stored))];
  }

  /** The number of current readers. */
  get size(): number {
    return this.readers.size;
  }

  async onApplicationShutdown(): Promise<void> {
    await this.stop();
  }

  /**
   * Returns batches of entries from now on, until the signal aborts. When this resolves, earlier entries are in the read models, where the
   * caller reads them. `cut` is called when the reader lags too far behind. Throws `read_model_behind`.
   */
  async follow(agentId: string, signal: AbortSignal, onTooSlow: () => void): Promise<AsyncIterable<LogEntry[]>> {
    const reader: Reader = { agentId, waiting: [], ended: false, wake: () => {}, onTooSlow };
    this.readers.add(reader);
    signal.addEventListener('abort', () => this.remove(reader), { once: true });
    if (signal.aborted) this.remove(reader);
    try {
      this.subscriptions ??= this.subscribe();
      await this.subscriptions;
      await this.waitForReadModels();
    } catch (error) {
      this.remove(reader);
      throw error;
    }
    return this.batches(reader);
  }

  /**
   * Resolves when the read model contains what the agent has printed so far, because a stream may have shown it already. It does not wait
   * for other agents' output, and not longer than reads wait for a read model.
   */
  async waitUntilStored(agentId: string): Promise<void> {
    const newest = this.events.readStream(`log-${agentId}`, { backwards: true, limit: 1 });
    for await (const { position } of newest) await this.readModels.waitIfRunning(logLinesProjection.name, position);
  }

  private async *batches(reader: Reader): AsyncGenerator<LogEntry[]> {
    try {
      while (!reader.ended) {
        if (reader.waiting.length === 0) await new Promise<void>((resolve) => (reader.wake = resolve));
        const batch = reader.waiting;
        reader.waiting = [];
        if (batch.length > 0) yield batch;
      }
    } finally {
      this.remove(reader);
    }
  }

  private remove(reader: Reader): void {
    this.readers.delete(reader);
    reader.ended = true;
    reader.waiting = [];
    reader.wake();
  }

  /** T1: waits for the read models, because the subscriptions may already have delivered entries that the read models do not have yet. */
  private async waitForReadModels(): Promise<void> {
    await Promise.all(
      this.projections.map(async ({ name, filter }) => this.readModels.waitFor(name, await this.events.head(filter.eventClass))),
    );
  }

  private async subscribe(): Promise<Subscription[]> {
    try {
      const heads = await Promise.all(this.projections.map(({ filter }) => this.events.head(filter.eventClass)));
      return this.projections.map((projection, index) => this.tail(projection, heads[index] as Position));
    } catch (error) {
      this.subscriptions = null;
      throw error;
    }
  }

  private tail(projection: Projection<LogTable>, head: Position): Subscription {
    const onBatch = async (events: StoredEvent[]) => {
      for (const event of events) this.deliver(projection, event);
    };
    const subscription = this.events.subscribe(head, projection.filter, onBatch, onlyEvents);
    // T4
    subscription.ended.catch(() => this.stop());
    return subscription;
  }

  private async stop(): Promise<void> {
    const subscriptions = this.subscriptions;
    this.subscriptions = null;
    for (const reader of this.readers) this.remove(reader);
    const open = (await subscriptions?.catch(() => [])) ?? [];
    await Promise.all(open.map((subscription) => subscription.stop()));
  }

  private deliver(projection: Projection<LogTable>, event: StoredEvent): void {
    const agentId = journalAgentOf(event);
    if (agentId === null) return;
    const readers = [...this.readers].filter((reader) => reader.agentId === agentId);
    if (readers.length === 0) return;
    const entries: LogEntry[] = [];
    // T3
    projection.project(event, {
      get: () => undefined,
      delete: () => {},
      set: (_, row) => entries.push(entryOf(row)),
    });
    for (const reader of readers) {
      // T2
      if (reader.waiting.length + entries.length > LAG_ENTRIES_MAX) {
        this.remove(reader);
        reader.onTooSlow();
        continue;
      }
      reader.waiting.push(...entries);
      reader.wake();
    }
  }
}
