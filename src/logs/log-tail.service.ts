import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { EventStore, idOf, type EventFilter, type StoredEvent, type Subscription } from '../platform/event-store/event-store.ts';
import { EventCatalogue } from '../platform/event-store/catalogue.ts';
import { Refusal } from '../platform/refusal.ts';
import type { Projection } from '../platform/projections/projection.ts';
import type { LogEntry } from './log-entries.projection.ts';
import { journalProjection, logLinesProjection, type LogEntryColumns } from './log.projection.ts';

/** Readers that may follow logs at once, in this process. */
const READERS_MAX = 200;
/** Entries that a slow reader may lag behind before its stream is ended. */
const LAG_MAX = 5_000;

interface Reader {
  agentId: string;
  waiting: LogEntry[];
  overflown: boolean;
  wake: () => void;
}

/** Hands new log entries to those who follow them: one subscription of each class for all readers together. */
@Injectable()
export class LogTail implements OnApplicationShutdown {
  private readonly readers = new Set<Reader>();
  private readonly journal: Projection<LogEntryColumns>;
  private subscriptions: Promise<Subscription[]> | null = null;
  private ended = false;

  constructor(
    private readonly events: EventStore,
    catalogue: EventCatalogue,
  ) {
    this.journal = journalProjection((stored) => catalogue.summaryOf(stored));
  }

  async onApplicationShutdown(): Promise<void> {
    this.ended = true;
    for (const reader of this.readers) reader.wake();
    const subscriptions = (await this.subscriptions) ?? [];
    await Promise.all(subscriptions.map((subscription) => subscription.stop()));
  }

  /** Batches of entries from now on, until the signal aborts. What came before is the caller's to read, after this call. */
  async follow(agentId: string, signal: AbortSignal): Promise<AsyncIterable<LogEntry[]>> {
    if (this.readers.size >= READERS_MAX) throw new Refusal('rate_limited', 'Too many log streams are open.', { retryAfterSeconds: 10 });
    const reader: Reader = { agentId, waiting: [], overflown: false, wake: () => {} };
    this.readers.add(reader);
    signal.addEventListener('abort', () => this.#drop(reader), { once: true });
    this.subscriptions ??= this.#subscribe();
    await this.subscriptions;
    return this.#batches(reader, signal);
  }

  async *#batches(reader: Reader, signal: AbortSignal): AsyncGenerator<LogEntry[]> {
    try {
      while (!signal.aborted && !this.ended && !reader.overflown) {
        if (reader.waiting.length === 0) await new Promise<void>((resolve) => (reader.wake = resolve));
        const batch = reader.waiting;
        reader.waiting = [];
        if (batch.length > 0) yield batch;
      }
    } finally {
      this.#drop(reader);
    }
  }

  #drop(reader: Reader): void {
    this.readers.delete(reader);
    reader.wake();
  }

  #subscribe(): Promise<Subscription[]> {
    return Promise.all([logLinesProjection, this.journal].map((projection) => this.#tail(projection, projection.filter)));
  }

  async #tail(projection: Projection<LogEntryColumns>, filter: EventFilter): Promise<Subscription> {
    const head = await this.events.head(filter.eventClass);
    return this.events.subscribe(head, filter, (events) => {
      for (const event of events) this.#hand(projection, event);
      return Promise.resolve();
    });
  }

  #hand(projection: Projection<LogEntryColumns>, event: StoredEvent): void {
    const agentId = event.type === 'BuildLogCaptured' ? (event.data.agent_id as string) : idOf(event.stream);
    const readers = [...this.readers].filter((reader) => reader.agentId === agentId);
    if (readers.length === 0) return;
    const entries: LogEntry[] = [];
    projection.project(event, {
      get: () => undefined,
      delete: () => {},
      set: (_, { agent_id: _agent, ...entry }) => entries.push(entry as LogEntry),
    });
    for (const reader of readers) {
      reader.overflown = reader.waiting.length + entries.length > LAG_MAX;
      reader.waiting.push(...entries);
      reader.wake();
    }
  }
}
