/**
 * The log in EventStoreDB, on one server or a cluster.
 *
 * Owns: the connection, the reader, the writer, one feed per class, and the subscriptions. Does not own the server's data format
 * (`envelope.ts`) or its names of streams (`names.ts`).
 *
 * E1  A position is the server's commit position: ordered, with gaps, one sequence for both classes.
 * E2  All calls require the leader, so that a read never misses what was appended before.
 * E3  An append counts as stored only once its events were read back. Otherwise its outcome is unknown, and the caller repeats it: a
 *     deposed leader may have accepted events that the cluster does not keep.
 * E4  Closing a stream appends a closing event that readers never see, because a tombstone would hide the events.
 * E5  Events are always returned in their current version.
 */
import { randomBytes } from 'node:crypto';
import { Logger } from '@nestjs/common';
import type { EventCatalogue } from '../event-catalogue.ts';
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
  type ExpectedRevision,
  type NewEvent,
  type Position,
  type QuietHandler,
  type ReadStreamOptions,
  type StoredEvent,
  type Subscription,
} from '../event-store.ts';
import { timed } from '../append-times.ts';
import { eventsUpTo, type Batch } from '../events-up-to.ts';
import { HeadWatch, LogSubscription } from '../log-subscription.ts';
import { checkTrimmable, checkName, prepare, revisionOf } from '../new-events.ts';
import { Confirmations } from './confirmations.ts';
import { Connection } from './connection.ts';
import { closingEvent, toPort, toServer, type Recorded } from './envelope.ts';
import { Feed } from './feed.ts';
import { EventReader, streamEvents } from './reading.ts';
import { Retention } from './retention.ts';
import { Writer, type Written } from './writer.ts';

const logger = new Logger('EventStore');

/** The event store on EventStoreDB. See E1 to E5. */
export class EventStoreDbEventStore extends EventStore {
  private readonly connection: Connection;
  private readonly reader: EventReader;
  private readonly writer: Writer;
  private readonly streamRetention: Retention;
  private readonly confirmations: Confirmations;
  private readonly feeds: Record<EventClass, Feed>;
  private readonly watches: Record<EventClass, HeadWatch>;
  private readonly subscriptions = new Set<LogSubscription>();
  private readonly name = randomBytes(6).toString('base64url');
  private calls = 0;

  /**
   * `prefix` separates installations that share a server; null if this installation has the server to itself. An append without a response
   * after `appendDeadlineMs`, 5 s by default, has an unknown outcome.
   */
  constructor(
    url: string,
    prefix: string | null,
    private readonly catalogue: EventCatalogue,
    { appendDeadlineMs }: { appendDeadlineMs?: number } = {},
  ) {
    super();
    this.connection = new Connection(url, prefix);
    this.reader = new EventReader(this.connection, catalogue);
    this.writer = new Writer(this.connection, this.reader, appendDeadlineMs);
    this.streamRetention = new Retention(this.connection, this.reader, this.writer);
    this.confirmations = new Confirmations(this.reader);
    this.feeds = { core: this.newFeed('core'), log: this.newFeed('log') };
    this.watches = { core: this.newWatch('core'), log: this.newWatch('log') };
  }

  async append(stream: string, expected: ExpectedRevision, events: NewEvent[]): Promise<AppendResult> {
    const revision = revisionOf(expected);
    const prepared = prepare(this.catalogue, stream, events);
    const call = `${this.name}:${(this.calls += 1)}`;
    const { written, stored } = await timed(classOf(stream), async () => {
      const forServer = prepared.events.map((event) => toServer(event, call));
      const answer = await this.writer.write(stream, revision, forServer);
      return { written: answer, stored: await this.asStored(stream, answer, events.length) };
    });
    if (classOf(stream) === 'log')
      await this.streamRetention
        .restore(stream)
        .catch((error: Error) =>
          logger.warn(`The retention of ${stream} could not be restored now and is restored later: ${error.message}`),
        );
    const last = stored.at(-1);
    return {
      revision: written.revision,
      position: written.position ?? last?.position ?? (await this.head(classOf(stream))),
      duplicate: last?.metadata.written_by !== call,
      events: stored.map((event) => toPort(event, this.catalogue)),
    };
  }

  async *readStream(stream: string, options: ReadStreamOptions = {}): AsyncIterable<StoredEvent> {
    const { backwards = false, from = backwards ? Number.MAX_SAFE_INTEGER : 0, limit = Infinity } = options;
    let any = false;
    for await (const event of streamEvents(this.reader, stream, { from, backwards, limit })) {
      any = true;
      yield toPort(event, this.catalogue);
    }
    if (any || limit === 0 || classOf(stream) !== 'log' || !(await this.unhideIfHidden(stream))) return;
    for await (const event of streamEvents(this.reader, stream, { from, backwards, limit })) yield toPort(event, this.catalogue);
  }

  async *readAll(after: Position, filter: EventFilter): AsyncIterable<StoredEvent[]> {
    const end = await this.head(filter.eventClass);
    yield* eventsUpTo(
      after,
      end,
      (position) => this.batch(position, filter),
      () => this.reader.end(),
    );
  }

  async *readAt(positions: readonly Position[]): AsyncIterable<StoredEvent> {
    for await (const record of this.reader.at(positions)) yield toPort(record, this.catalogue);
  }

  subscribe(after: Position, filter: EventFilter, onBatch: BatchHandler, onQuiet?: QuietHandler): Subscription {
    const feed = this.feeds[filter.eventClass];
    feed.start();
    const kept = (position: Position) => {
      const batch = feed.eventsAfter(position, filter);
      return batch !== null && batch.upTo > position ? batch : null;
    };
    const read = async (position: Position) => kept(position) ?? this.batch(position, filter);
    const subscription = new LogSubscription({ watch: this.watches[filter.eventClass], read, kept }, after, onBatch, onQuiet);
    this.subscriptions.add(subscription);
    const forget = () => void this.subscriptions.delete(subscription);
    subscription.ended.then(forget, forget);
    return subscription;
  }

  head(eventClass: EventClass): Promise<Position> {
    return this.reader.head(eventClass);
  }

  override end(): Promise<Position> {
    return this.reader.end();
  }

  async setRetention(stream: string, { maxAgeSeconds }: { maxAgeSeconds: number }): Promise<void> {
    checkTrimmable(stream, maxAgeSeconds);
    await this.streamRetention.setAge(stream, maxAgeSeconds);
  }

  async truncateStream(stream: string, before: number): Promise<void> {
    checkTrimmable(stream, before);
    await this.streamRetention.truncate(stream, before);
  }

  /** E4: Appends a closing event. A tombstone would hide the events, and metadata does not prevent appends. */
  async closeStream(stream: string, expected: ExpectedRevision): Promise<void> {
    checkName(stream);
    const revision = revisionOf(expected);
    try {
      await this.writer.write(stream, revision, [closingEvent(stream)]);
    } catch (error) {
      if (!(error instanceof StreamClosed)) throw error;
      let actual = -1;
      for await (const last of streamEvents(this.reader, stream, { from: Number.MAX_SAFE_INTEGER, backwards: true, limit: 1 }))
        actual = last.revision;
      if (actual !== revision) throw new WrongExpectedRevision(stream, expected, actual);
    }
  }

  async ping(): Promise<void> {
    await this.reader.ping();
  }

  /** Ends subscriptions and waits for appends in flight. */
  async close(): Promise<void> {
    await Promise.all([...this.subscriptions].map((subscription) => subscription.stop()));
    await Promise.all([this.feeds.core.stop(), this.feeds.log.stop()]);
    await this.connection.close();
  }

  /**
   * E3: Reads the appended events back. Throws `OutcomeUnknown` if they can't be read now, so that the caller repeats the append: a client
   * that was replaced meanwhile may have reached a deposed leader, whose log ends before them.
   */
  private async asStored(stream: string, { revision, position }: Written, count: number): Promise<Recorded[]> {
    try {
      if (count === 1 && position !== null) return [await this.confirmations.at(position)];
      const { events } = await this.reader.streamPage(stream, revision - count + 1, false, count);
      // A retention may hide some or all events of a `log` stream.
      if (events.length === count || classOf(stream) === 'log') return events;
      throw new EventStoreUnavailable(new Error(`${stream} has not reached revision ${revision}`));
    } catch (error) {
      if (!(error instanceof EventStoreUnavailable)) throw error;
      throw new OutcomeUnknown(stream, error.cause);
    }
  }

  private batch(after: Position, filter: EventFilter): Promise<Batch> {
    const forgotten = filter.eventClass === 'log' ? (events: Recorded[]) => this.streamRetention.hiddenEvents(events) : undefined;
    return this.reader.batch(after, filter, forgotten);
  }

  /** Returns whether the whole stream was hidden by age, and its last event can be read now. */
  private async unhideIfHidden(stream: string): Promise<boolean> {
    const { events } = await this.reader.streamPage(stream, Number.MAX_SAFE_INTEGER, true, 1);
    return events.length === 0 && this.streamRetention.unhideLast(stream);
  }

  private newFeed(eventClass: EventClass): Feed {
    return new Feed(this.connection, this.reader, this.catalogue, eventClass, (upTo) => this.watches[eventClass].notify(upTo));
  }

  /** The regular check of the log's end also detects a subscription that no longer sends events. */
  private newWatch(eventClass: EventClass): HeadWatch {
    return new HeadWatch(async () => {
      const head = await this.reader.head(eventClass);
      this.feeds[eventClass].noteHead(head);
      return head;
    });
  }
}
