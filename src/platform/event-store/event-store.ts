import type { JsonObject } from './event-definition.ts';

/** Opaque, ordered as text: compare with `<` and nothing else. The start of a log is `START`. */
export type Position = string;
export const START: Position = '0'.repeat(20);

export type ActorKind = 'api_key' | 'session' | 'system' | 'webhook' | 'anonymous';

export interface Actor {
  kind: ActorKind;
  id: string;
  name: string;
}

/** Who and why, stored with every event. */
export interface EventMetadata {
  actor: Actor;
  account_id: string | null;
  request_id: string | null;
  /** The id of the event, or of the message, that led to this one. */
  causation_id: string | null;
  ip: string | null;
}

export interface NewEvent {
  /** UUIDv7, or a UUIDv5 derived from what the event records: the idempotency key of the append. */
  id: string;
  type: string;
  schemaVersion: number;
  data: JsonObject;
  metadata: EventMetadata;
}

export interface StoredEvent extends NewEvent {
  stream: string;
  /** 0, 1, 2 … within the stream. */
  revision: number;
  position: Position;
  /** ISO 8601 UTC with milliseconds, the store's clock. */
  at: string;
}

/** The last revision that the stream must have, or that it must not exist. Never "any": only so is a retry safe. */
export type ExpectedRevision = number | 'no_stream';

export interface AppendResult {
  /** Revision of the last event written. */
  revision: number;
  position: Position;
  /** True where the same ids stood there already: the first answer, given again. */
  duplicate: boolean;
  /** The events as stored. */
  events: StoredEvent[];
}

/** `core` is what decides; `log` (streams `log-…`) is container output, with retention and positions of its own. */
export type EventClass = 'core' | 'log';

export interface EventFilter {
  eventClass: EventClass;
  /** Stream categories (the text before the first `-`); all of the class where absent. */
  categories?: readonly string[];
  types?: readonly string[];
}

export interface ReadStreamOptions {
  /** First revision to give; where absent the start, or the end when reading backwards. */
  from?: number;
  backwards?: boolean;
  limit?: number;
}

export interface Subscription {
  /** Ends it; resolves when no batch is under way any more. */
  stop(): Promise<void>;
  /** Settles when the subscription ended: resolved by `stop`, rejected by an error of `onBatch`. Store failures never end it. */
  readonly ended: Promise<void>;
}

/** Events in order; everything up to `upTo` was looked at, also where the filter let nothing through. */
export interface EventsUpTo {
  events: StoredEvent[];
  upTo: Position;
}

/** What follows a position. */
export interface Lag {
  /** How many; an adapter that has to read them to count them stops at 10 000. */
  events: number;
  /** ISO 8601, of the first of them; null where there is none. */
  since: string | null;
}

const LAG_MAX = 10_000;
/** Events that a bulk read hands over at a time, where the adapter has no faster way. */
const BULK_BATCH = 500;

/** How the forgetting of old events of the class `log` goes. */
export interface RetentionStatus {
  /** When nothing was left that had to be forgotten, ISO 8601, whichever process saw to it; null where there was nothing to look at yet. */
  caughtUpAt: string | null;
  /** Events that this process has forgotten since it started. */
  forgotten: number;
  /** Why this process failed the last time; null where it did not. */
  error: string | null;
}

/** `upTo` moves on even where the filter let no event through. */
export type BatchHandler = (events: StoredEvent[], upTo: Position) => Promise<void>;

/** The stream is not at the revision that the writer decided on. */
export class WrongExpectedRevision extends Error {
  constructor(
    readonly stream: string,
    readonly expected: ExpectedRevision,
    /** -1 where the stream does not exist. */
    readonly actual: number,
  ) {
    super(`stream ${stream}: expected ${expected}, found ${actual}`);
    this.name = 'WrongExpectedRevision';
  }
}

/** Nobody knows whether it was stored: repeat the same call with the same ids; it is answered as the first was. */
export class OutcomeUnknown extends Error {
  constructor(stream: string, cause: unknown) {
    super(`outcome of the append to ${stream} is unknown`, { cause });
    this.name = 'OutcomeUnknown';
  }
}

/** The stream has had its last event. */
export class StreamClosed extends Error {
  constructor(readonly stream: string) {
    super(`stream ${stream} is closed`);
    this.name = 'StreamClosed';
  }
}

/** The store can't be reached at all; nothing was written. */
export class EventStoreUnavailable extends Error {
  constructor(cause: unknown) {
    super('the event store is not available', { cause });
    this.name = 'EventStoreUnavailable';
  }
}

/** The category of a stream: the text before its first `-`. */
export function categoryOf(stream: string): string {
  const dash = stream.indexOf('-');
  return dash < 0 ? stream : stream.slice(0, dash);
}

/** The id of a stream: the text after its first `-`. */
export function idOf(stream: string): string {
  return stream.slice(stream.indexOf('-') + 1);
}

/** Whether the filter lets the event through. */
export function passes({ stream, type }: { stream: string; type: string }, { categories, types }: EventFilter): boolean {
  return (categories?.includes(categoryOf(stream)) ?? true) && (types?.includes(type) ?? true);
}

export function classOf(stream: string): EventClass {
  return categoryOf(stream) === 'log' ? 'log' : 'core';
}

/** The log. One contract suite (`event-store.contract.ts`) holds every adapter to it. */
export abstract class EventStore {
  /**
   * Appends all the events or none (1…500 of them, 1 MiB of data in all).
   * Throws `WrongExpectedRevision`, `OutcomeUnknown`, `StreamClosed`, `EventStoreUnavailable`.
   */
  abstract append(stream: string, expected: ExpectedRevision, events: NewEvent[]): Promise<AppendResult>;
  /** The stream's events in order; an unknown stream is empty. */
  abstract readStream(stream: string, options?: ReadStreamOptions): AsyncIterable<StoredEvent>;
  /**
   * The stream's events from a revision on, for a reader who goes through a long stream: in bulk, the events perhaps decoded only as far as
   * they are looked at (so their members are not their own). An adapter with a faster way than `readStream` takes it.
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
  /** Batches (≤ 1000) of what follows the position, up to the head at the time of the call. */
  abstract readAll(after: Position, filter: EventFilter): AsyncIterable<StoredEvent[]>;
  /**
   * What follows the position, up to and with `end`, for a reader who goes through all the log: in bulk, the events perhaps decoded only as
   * far as they are looked at (so their members are not their own: copy by `toJSON`). An adapter with a faster way than `readAll` takes it.
   */
  async *readBulk(after: Position, end: Position, filter: EventFilter): AsyncIterable<EventsUpTo> {
    for await (const batch of this.readAll(after, filter)) {
      const events = batch.filter(({ position }) => position <= end);
      const last = events.at(-1);
      if (last !== undefined) yield { events, upTo: last.position };
      if (events.length < batch.length) return;
    }
    const found = await this.end();
    if (found < end) throw new EventStoreUnavailable(new Error(`the log ends at ${found} here, and at ${end} elsewhere`));
  }

  /** The core's events at the positions, 1 000 of them at most, in that order; a position at which none stands is left out. */
  abstract readAt(positions: readonly Position[]): Promise<StoredEvent[]>;
  /** No event of any class, and no position to which one was followed, lies behind it. */
  async end(): Promise<Position> {
    const [core, log] = await Promise.all([this.head('core'), this.head('log')]);
    return core > log ? core : log;
  }

  /** How much of the log follows the position. */
  async lag(after: Position, eventClass: EventClass): Promise<Lag> {
    const lag: Lag = { events: 0, since: null };
    for await (const events of this.readAll(after, { eventClass })) {
      lag.since ??= events[0]?.at ?? null;
      lag.events += events.length;
      if (lag.events >= LAG_MAX) break;
    }
    return lag;
  }

  /** A position which nothing precedes that happened after the time (by the store's clock); `START` from an adapter that can't look it up. */
  before(_time: Date, _eventClass: EventClass): Promise<Position> {
    return Promise.resolve(START);
  }
  /** Follows the log for ever from a position; batches never overlap in time, and outlive failures of the store. */
  abstract subscribe(after: Position, filter: EventFilter, onBatch: BatchHandler): Subscription;
  abstract head(eventClass: EventClass): Promise<Position>;
  /** Lets the store forget each event of the stream when it is older than that, but for the last. Only for streams of the class `log`. */
  abstract setRetention(stream: string, retention: { maxAgeSeconds: number }): Promise<void>;
  /** Forgets the stream's events before the revision, but for the last; costs what it forgets. May be repeated. Only for streams of the class `log`. */
  abstract truncateStream(stream: string, before: number): Promise<void>;
  /** How the forgetting goes; null from an adapter whose server does it by itself. */
  retention(): Promise<RetentionStatus | null> {
    return Promise.resolve(null);
  }
  /** No event can follow any more. `expected` as in `append`. Idempotent. */
  abstract closeStream(stream: string, expected: ExpectedRevision): Promise<void>;
  /** Resolves where the store answers, throws `EventStoreUnavailable` where it does not. */
  abstract ping(): Promise<void>;
  abstract close(): Promise<void>;
}
