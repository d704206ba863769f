import type { Actor } from '../../kernel/context/actor.ts';
import type { JsonObject } from './event-definition.ts';

/** A position in the log: opaque, ordered as text, to be compared with `<` and nothing else. A log begins at `START`. */
export type Position = string;
export const START: Position = '0'.repeat(20);

/** The actor, the request and the cause of an event, stored with it. */
export interface EventMetadata {
  actor: Actor;
  account_id: string | null;
  request_id: string | null;
  /** The id of the event, or of the message, that caused this one. */
  causation_id: string | null;
  ip: string | null;
}

export interface NewEvent {
  /** A UUIDv7, or a UUIDv5 derived from what the event records: the idempotency key of the append. */
  id: string;
  type: string;
  schemaVersion: number;
  data: JsonObject;
  metadata: EventMetadata;
}

export interface StoredEvent extends NewEvent {
  stream: string;
  /** The number of the event within its stream: 0, 1, 2 … */
  revision: number;
  position: Position;
  /** The time at which the store wrote the event, by the store's clock: ISO 8601, UTC, with milliseconds. */
  at: string;
}

/** The last revision that the stream must have, or `no_stream` if it must not exist. There is no "any", so that every retry is safe. */
export type ExpectedRevision = number | 'no_stream';

export interface AppendResult {
  /** The revision of the last event written. */
  revision: number;
  position: Position;
  /** The value is true if these ids had been stored before: the result is then that of the first append. */
  duplicate: boolean;
  /** The events as they are stored. */
  events: StoredEvent[];
}

/**
 * The class `core` contains the events that decisions depend on. The class `log` (streams `log-…`) contains container output, with
 * retention and positions of its own.
 */
export type EventClass = 'core' | 'log';

export interface EventFilter {
  eventClass: EventClass;
  /** The stream categories (the text before the first `-`); absent: all of the class. */
  categories?: readonly string[];
  types?: readonly string[];
}

export interface ReadStreamOptions {
  /** The first revision to return; if absent, the start, or the end when reading backwards. */
  from?: number;
  backwards?: boolean;
  limit?: number;
}

export interface Subscription {
  /** Ends the subscription; resolves when no batch is being handled any more. */
  stop(): Promise<void>;
  /** Settles when the subscription has ended: resolves after `stop`, rejects with an error of `onBatch`. Store failures never end it. */
  readonly ended: Promise<void>;
}

/** Events in order; everything up to `upTo` was read, even if the filter let nothing through. */
export interface EventsUpTo {
  events: StoredEvent[];
  upTo: Position;
}

/** The events that follow a position: their number and their age. */
export interface Lag {
  /** The number of events; an adapter that has to read events to count them stops at 10 000. */
  events: number;
  /** The time of the first of them, ISO 8601; null if there is none. */
  since: string | null;
}

const LAG_MAX = 10_000;
/** The number of events in each batch of a bulk read, in an adapter that has no faster way. */
const BULK_BATCH = 500;

/** The progress of removing old events of the class `log`. */
export interface RetentionStatus {
  /** The last time at which no event was left to remove, whichever process found that, ISO 8601; null if no process has checked yet. */
  caughtUpAt: string | null;
  /** The number of events that this process has removed since it started. */
  removed: number;
  /** The reason why this process failed the last time; null if it did not fail. */
  error: string | null;
}

/** Handles a batch. `upTo` advances even if the filter let no event through. */
export type BatchHandler = (events: StoredEvent[], upTo: Position) => Promise<void>;

/**
 * Looks at a batch while the subscriber waits at the end of the log, within the append that wrote it, so it has to be quick. Returns true if the
 * subscriber has moved to `upTo` with that, since nothing in the batch concerns it; otherwise the batch is handled as all others.
 */
export type QuietHandler = (events: readonly StoredEvent[], upTo: Position) => boolean;

/** The handler of a subscriber that needs no more than the events. */
export const onlyEvents: QuietHandler = (events) => events.length === 0;

/** The stream is not at the revision that the writer expected. */
export class WrongExpectedRevision extends Error {
  constructor(
    readonly stream: string,
    readonly expected: ExpectedRevision,
    /** The revision of the stream; -1 if it does not exist. */
    readonly actual: number,
  ) {
    super(`stream ${stream}: expected ${expected}, found ${actual}`);
    this.name = 'WrongExpectedRevision';
  }
}

/** It is unknown whether the events were stored. Repeat the call with the same ids: its result is that of the first call. */
export class OutcomeUnknown extends Error {
  constructor(stream: string, cause: unknown) {
    super(`outcome of the append to ${stream} is unknown`, { cause });
    this.name = 'OutcomeUnknown';
  }
}

/** The stream is closed: no event can follow its last one. */
export class StreamClosed extends Error {
  constructor(readonly stream: string) {
    super(`stream ${stream} is closed`);
    this.name = 'StreamClosed';
  }
}

/** The store can't be reached; nothing was written. */
export class EventStoreUnavailable extends Error {
  constructor(cause: unknown) {
    super('the event store is not available', { cause });
    this.name = 'EventStoreUnavailable';
  }
}

/** Returns the category of a stream: the text before its first `-`. */
export function categoryOf(stream: string): string {
  const dash = stream.indexOf('-');
  return dash < 0 ? stream : stream.slice(0, dash);
}

/** Returns the id of a stream: the text after its first `-`. */
export function idOf(stream: string): string {
  return stream.slice(stream.indexOf('-') + 1);
}

type EventTest = (event: Pick<StoredEvent, 'stream' | 'type'>) => boolean;

/** The tests of filters that are in use, since a filter is tested with each event of the log. */
const tests = new WeakMap<object, EventTest>();

/** Returns a test for events of the filter's class, which is true for those that pass the filter. A filter never changes. */
export function matches(filter: Omit<EventFilter, 'eventClass'>): EventTest {
  const known = tests.get(filter);
  if (known !== undefined) return known;
  const [categories, types] = [filter.categories && new Set(filter.categories), filter.types && new Set(filter.types)];
  const test: EventTest = ({ stream, type }) => (types?.has(type) ?? true) && (categories?.has(categoryOf(stream)) ?? true);
  tests.set(filter, test);
  return test;
}

export function classOf(stream: string): EventClass {
  return categoryOf(stream) === 'log' ? 'log' : 'core';
}

/** The log. All adapters pass the same tests (`event-store.contract.ts`). */
export abstract class EventStore {
  /**
   * Appends all the events or none (1…500 of them, 1 MiB of data in all).
   * Throws `WrongExpectedRevision`, `OutcomeUnknown`, `StreamClosed`, `EventStoreUnavailable`.
   */
  abstract append(stream: string, expected: ExpectedRevision, events: NewEvent[]): Promise<AppendResult>;
  /** Reads the stream's events in order; an unknown stream is empty. */
  abstract readStream(stream: string, options?: ReadStreamOptions): AsyncIterable<StoredEvent>;
  /**
   * Reads the stream's events from a revision on, in batches, for callers that read a long stream. The members of an event may be decoded
   * only when they are read, so they may not be its own properties. An adapter overrides this if it has a faster way than `readStream`.
   */
  async *readStreamInBulk(stream: string, from: number): AsyncIterable<StoredEvent[]> {
    let batch: StoredEvent[] = [];
    for await (const event of this.readStream(stream, { from })) {
      batch.push(event);
      if (batch.length < BULK_BATCH) continue;
      yield batch;
      batch = [];
    }
    if (batch.length > 0) yield batch;
  }
  /** Reads the events after the position, up to the head at the time of the call, in batches of at most 1000. */
  abstract readAll(after: Position, filter: EventFilter): AsyncIterable<StoredEvent[]>;
  /**
   * Reads the events after the position, up to and including `end`, in batches, for callers that read the whole log. The members of an
   * event may be decoded only when they are read, so they may not be its own properties: copy an event with `toJSON`. An adapter overrides
   * this if it has a faster way than `readAll`. Throws `EventStoreUnavailable` if the log ends before `end`.
   */
  async *readBulk(after: Position, end: Position, filter: EventFilter): AsyncIterable<EventsUpTo> {
    for await (const batch of this.readAll(after, filter)) {
      const events = batch.filter(({ position }) => position <= end);
      const last = events.at(-1);
      if (last !== undefined) yield { events, upTo: last.position };
      if (events.length < batch.length) return;
    }
    const found = await this.end();
    if (found < end) throw new EventStoreUnavailable(new Error(`the log ends at ${found} on this node, and at ${end} on another`));
  }

  /**
   * Reads the core events at the positions, at most 1 000, in the order of the positions; positions without an event are left out. Only a
   * part of them is in memory at a time.
   */
  abstract readAt(positions: readonly Position[]): AsyncIterable<StoredEvent>;
  /** Returns a position that is not before any event of any class, nor before any position that a subscription has reached. */
  async end(): Promise<Position> {
    const [core, log] = await Promise.all([this.head('core'), this.head('log')]);
    return core > log ? core : log;
  }

  /** Returns the number of events after the position, and the time of the first. */
  async lag(after: Position, eventClass: EventClass): Promise<Lag> {
    const lag: Lag = { events: 0, since: null };
    for await (const events of this.readAll(after, { eventClass })) {
      lag.since ??= events[0]?.at ?? null;
      lag.events += events.length;
      if (lag.events >= LAG_MAX) break;
    }
    return lag;
  }

  /**
   * Returns a position such that no event up to it is later than the time (by the store's clock); `START` from an adapter that can't look
   * it up.
   */
  before(_time: Date, _eventClass: EventClass): Promise<Position> {
    return Promise.resolve(START);
  }
  /**
   * Follows the log from a position until it is stopped; batches never overlap in time, and failures of the store do not end it. `onQuiet`, which
   * is not always asked, spares a subscriber a turn for what does not concern it.
   */
  abstract subscribe(after: Position, filter: EventFilter, onBatch: BatchHandler, onQuiet?: QuietHandler): Subscription;
  abstract head(eventClass: EventClass): Promise<Position>;
  /** Has the store remove each event of the stream once it is older than the age, except the last. Only for streams of the class `log`. */
  abstract setRetention(stream: string, retention: { maxAgeSeconds: number }): Promise<void>;
  /**
   * Removes the stream's events before the revision, except the last; the cost grows with the number removed. Idempotent. Only for streams
   * of the class `log`.
   */
  abstract truncateStream(stream: string, before: number): Promise<void>;
  /** Returns the progress of removing old events; null from an adapter whose server removes them by itself. */
  retention(): Promise<RetentionStatus | null> {
    return Promise.resolve(null);
  }
  /** Closes the stream: no event can follow any more. `expected` is as in `append`. Idempotent. */
  abstract closeStream(stream: string, expected: ExpectedRevision): Promise<void>;
  /** Resolves if the store responds. Throws `EventStoreUnavailable` if it does not. */
  abstract ping(): Promise<void>;
  abstract close(): Promise<void>;
}
