/**
 * The log in PostgreSQL: one table per class of events.
 *
 * Owns: the connections for appends and bulk reads, the batchers, the shared reads at the log's end, and the subscriptions. Does not own
 * the append function and triggers (`src/postgres/migrations`) or the database itself.
 *
 * E1  Positions have no gaps and follow the order of commits: appends take one lock per class and are committed in groups, so a reader
 *     needs `position > $1` and nothing else (decisions/0002).
 * E2  Appends never wait for reads: they have connections of their own, one per class. So have bulk reads.
 * E3  Events that this process appended are not read back for its subscriptions: a notification waits briefly for the result of the append
 *     in flight, with which the events arrive.
 * E4  Events are always returned in their current version, and only the current version can be appended.
 */
import type pg from 'pg';
import type { Database } from '../../../postgres/database/database.ts';
import type { EventCatalogue } from '../event-catalogue.ts';
import type { JsonObject } from '../event-definition.ts';
import {
  classOf,
  EventStore,
  EventStoreUnavailable,
  OutcomeUnknown,
  StreamClosed,
  WrongExpectedRevision,
  type AppendResult,
  type BatchHandler,
  type EventClass,
  type EventFilter,
  type EventMetadata,
  type EventsUpTo,
  type ExpectedRevision,
  type Lag,
  type NewEvent,
  type Position,
  type QuietHandler,
  type ReadStreamOptions,
  type RetentionStatus,
  type StoredEvent,
  type Subscription,
} from '../event-store.ts';
import { eventsUpTo } from '../events-up-to.ts';
import { HeadWatch, LogSubscription } from '../log-subscription.ts';
import { checkTrimmable, checkName, prepare, revisionOf, type SerialisedEvent } from '../new-events.ts';
import { timed } from '../append-times.ts';
import { AppendBatcher } from './append-batcher.ts';
import { BulkReader } from './bulk-reader.ts';
import { LogTrimmer } from './log-trimmer.ts';
import { EventReader, positionOf, tables } from './reading.ts';
import { ResponseLost, runIdempotent, runOnce } from './sending.ts';
import { SharedReads } from './shared-reads.ts';

const channel = 'mooring_events';

/** E3: The time for which a notification waits for the result of an append in flight, in ms. */
const APPEND_RESULT_WAIT_MS = 20;

/** Timeouts of appends, in ms. The last is enforced by the client, in case the server stops responding. */
const timeouts = { lock_timeout: 5_000, statement_timeout: 10_000, query_timeout: 15_000 };

/** A bulk read may take long. E2: It has connections of its own, so that it takes none from other callers. */
const bulkTimeouts = { statement_timeout: 0 };
const BULK_READERS_MAX = 3;

/** The event store on PostgreSQL. See E1 to E4. */
export class PostgresEventStore extends EventStore {
  private readonly writers: pg.Pool;
  private readonly batchers: Record<EventClass, AppendBatcher>;
  private readonly watches: Record<EventClass, HeadWatch>;
  private readonly reader: EventReader;
  private readonly bulk: BulkReader;
  private readonly sharedReads: Record<EventClass, SharedReads>;
  private readonly subscriptions = new Set<LogSubscription>();
  private readonly trimmer: LogTrimmer;
  private listening: Promise<() => Promise<void>> | null = null;

  constructor(
    private readonly database: Database,
    private readonly catalogue: EventCatalogue,
  ) {
    super();
    // E2
    this.writers = database.openPool('appends', 2, timeouts);
    this.reader = new EventReader(database.pool, catalogue);
    this.bulk = new BulkReader(database.openPool('bulk_reads', BULK_READERS_MAX, bulkTimeouts), catalogue);
    this.sharedReads = { core: new SharedReads(this.reader, 'core'), log: new SharedReads(this.reader, 'log') };
    this.batchers = { core: new AppendBatcher(this.writers, 'es_append'), log: new AppendBatcher(this.writers, 'es_log_append') };
    this.watches = { core: new HeadWatch(() => this.head('core')), log: new HeadWatch(() => this.head('log')) };
    this.trimmer = new LogTrimmer(database.pool);
  }

  async append(stream: string, expected: ExpectedRevision, events: NewEvent[]): Promise<AppendResult> {
    const revision = revisionOf(expected);
    const prepared = prepare(this.catalogue, stream, events);
    const eventClass = classOf(stream);
    const { events: serialised, size } = prepared;
    const outcome = await timed(eventClass, () =>
      this.batchers[eventClass].append({ stream, expected: revision, events: serialised, size }),
    );
    if (outcome.verdict === 'C') throw new StreamClosed(stream);
    if (outcome.verdict === 'W' || outcome.position === null) throw new WrongExpectedRevision(stream, expected, outcome.revision);
    const position = positionOf(String(outcome.position));
    if (outcome.verdict === 'D') {
      const stored: StoredEvent[] = [];
      for await (const event of this.readStream(stream, { from: revision + 1, limit: events.length })) stored.push(event);
      return { revision: outcome.revision, position, duplicate: true, events: stored };
    }
    const appended = asStored(stream, serialised, outcome.revision, outcome.position, outcome.at);
    const after = positionOf(String(outcome.position - events.length));
    this.sharedReads[eventClass].cache({ after, events: appended, upTo: position, size });
    this.watches[eventClass].notify(position);
    return { revision: outcome.revision, position, duplicate: false, events: appended };
  }

  readStream(stream: string, options: ReadStreamOptions = {}): AsyncIterable<StoredEvent> {
    const { backwards = false, from = backwards ? Number.MAX_SAFE_INTEGER : 0, limit = Infinity } = options;
    const kept = limit === 1 && !backwards ? this.sharedReads[classOf(stream)].find(stream, from) : undefined;
    if (kept !== undefined) return one(kept);
    return this.reader.stream(tables[classOf(stream)], stream, from, backwards, limit);
  }

  async *readAll(after: Position, filter: EventFilter): AsyncIterable<StoredEvent[]> {
    const end = await this.head(filter.eventClass);
    yield* eventsUpTo(
      after,
      end,
      (position) => this.reader.batch(position, filter),
      () => this.head(filter.eventClass),
    );
  }

  override readBulk(after: Position, end: Position, filter: EventFilter): AsyncIterable<EventsUpTo> {
    return this.bulk.read(after, end, filter);
  }

  override readStreamInBulk(stream: string, from: number): AsyncIterable<StoredEvent[]> {
    return this.bulk.stream(tables[classOf(stream)], stream, from);
  }

  override lag(after: Position, eventClass: EventClass): Promise<Lag> {
    return this.reader.lag(after, eventClass);
  }

  override before(time: Date, eventClass: EventClass): Promise<Position> {
    return this.reader.before(time, eventClass);
  }

  subscribe(after: Position, filter: EventFilter, onBatch: BatchHandler, onQuiet?: QuietHandler): Subscription {
    this.listening ??= this.database.listen(channel, (payload) => this.onNotification(payload));
    const shared = this.sharedReads[filter.eventClass];
    const log = {
      watch: this.watches[filter.eventClass],
      read: (position: Position, atHead: boolean) => (atHead ? shared : this.reader).batch(position, filter),
      kept: (position: Position) => shared.ranges(position, filter),
    };
    const subscription = new LogSubscription(log, after, onBatch, onQuiet);
    this.subscriptions.add(subscription);
    const forget = () => void this.subscriptions.delete(subscription);
    subscription.ended.then(forget, forget);
    return subscription;
  }

  head(eventClass: EventClass): Promise<Position> {
    return this.reader.head(eventClass);
  }

  readAt(positions: readonly Position[]): AsyncIterable<StoredEvent> {
    return this.reader.at(positions);
  }

  async setRetention(stream: string, { maxAgeSeconds }: { maxAgeSeconds: number }): Promise<void> {
    checkTrimmable(stream, maxAgeSeconds);
    const text = 'select public.es_set_retention($1, $2, null)';
    await runIdempotent(this.database.pool, { name: 'set retention', text, values: [stream, maxAgeSeconds] });
  }

  async truncateStream(stream: string, before: number): Promise<void> {
    checkTrimmable(stream, before);
    await this.trimmer.truncate(stream, before);
  }

  override retention(): Promise<RetentionStatus> {
    return this.trimmer.status();
  }

  async closeStream(stream: string, expected: ExpectedRevision): Promise<void> {
    checkName(stream);
    const revision = revisionOf(expected);
    const procedure = classOf(stream) === 'log' ? 'es_log_close_stream' : 'es_close_stream';
    try {
      const rows = await runOnce<[string]>(this.writers, {
        name: procedure,
        text: `select public.${procedure}($1, $2)`,
        values: [stream, revision],
      });
      const found = Number(rows[0]?.[0]);
      if (found !== revision) throw new WrongExpectedRevision(stream, expected, found);
    } catch (error) {
      throw error instanceof ResponseLost ? new OutcomeUnknown(stream, error.cause) : error;
    }
  }

  /** Removes the log events that are past their retention; returns how many. This also runs by itself every minute. */
  trim(): Promise<number> {
    return this.trimmer.trim();
  }

  async ping(): Promise<void> {
    await this.database.ping().catch((error: unknown) => {
      throw new EventStoreUnavailable(error);
    });
  }

  /** Ends subscriptions and waits for appends in flight. Leaves the database open. */
  async close(): Promise<void> {
    await this.trimmer.stop();
    await Promise.all([...this.subscriptions].map((subscription) => subscription.stop()));
    await Promise.all([this.batchers.core.close(), this.batchers.log.close()]);
    await (
      await this.listening
    )?.();
  }

  /** E3: Wakes the subscriptions, after a brief wait for an append in flight: a notification can arrive before the result of its append. */
  private notifyAfterAppend(eventClass: EventClass, position: Position): void {
    const told = () => this.watches[eventClass].notify(position);
    const { inFlight: underWay } = this.batchers[eventClass];
    // The notification of an own append usually comes after its answer.
    if (underWay === null || this.watches[eventClass].isKnown(position)) return told();
    const timer = setTimeout(told, APPEND_RESULT_WAIT_MS).unref();
    void underWay.finally(() => {
      clearTimeout(timer);
      // The append's continuation, which keeps the events, runs before this.
      setImmediate(told);
    });
  }

  /**
   * Handles a notification: `core 17` means that the core log has reached position 17; an empty payload means that notifications may have
   * been missed.
   */
  private onNotification(payload: string): void {
    const [eventClass, number] = payload.split(' ');
    if ((eventClass === 'core' || eventClass === 'log') && number) this.notifyAfterAppend(eventClass, positionOf(number));
    else for (const watch of Object.values(this.watches)) void watch.poll();
  }
}

async function* one(event: StoredEvent): AsyncGenerator<StoredEvent> {
  yield event;
}

function asStored(stream: string, events: SerialisedEvent[], revision: number, position: number, at: number): StoredEvent[] {
  const written = new Date(at).toISOString();
  const before = events.length - 1;
  return events.map((event, index) => ({
    ...event,
    data: JSON.parse(event.data) as JsonObject,
    metadata: JSON.parse(event.metadata) as EventMetadata,
    stream,
    revision: revision - before + index,
    position: positionOf(String(position - before + index)),
    at: written,
  }));
}
