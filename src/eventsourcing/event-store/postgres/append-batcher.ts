/**
 * Groups appends into transactions, so that one flush to disk carries many of them.
 *
 * Owns: the queue of one class of events, and its only transaction in flight. Does not own the append function, which is SQL.
 *
 * C1  One batch is in flight at a time. Appends that arrive meanwhile go into the next.
 * C2  A batch has at most one append per stream, so each append is judged on its own, and appends to one stream keep their order.
 * C3  A batch that the database refuses as a whole is repeated append by append, so that a faulty append fails alone.
 * C4  The queue is bounded by appends and by bytes; appends beyond that are refused, and were not stored.
 */
import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import type pg from 'pg';
import { EventStoreUnavailable, OutcomeUnknown } from '../event-store.ts';
import type { SerialisedEvent } from '../new-events.ts';
import { ResponseLost, runOnce } from './sending.ts';

export interface Append {
  stream: string;
  /** The expected revision; -1 if the stream must not exist. */
  expected: number;
  events: SerialisedEvent[];
  /** The size of the events, in bytes. */
  size: number;
}

export interface Outcome {
  /** The outcome: appended, duplicate, closed, or wrong expected revision. */
  verdict: 'A' | 'D' | 'C' | 'W';
  revision: number;
  /** The position of the last event; null unless appended or duplicate. */
  position: number | null;
  /** The time of the append, in ms since 1970. */
  at: number;
}

interface PendingAppend extends Append {
  resolve(outcome: Outcome): void;
  reject(error: unknown): void;
}

/** The result of the append function. If `outcomes` is null, all events were appended, in the order given. */
interface AppendFunctionResult {
  at: number;
  before: number;
  outcomes: [verdict: Outcome['verdict'], revision: number, position: number | null][] | null;
}

const BATCH_APPENDS_MAX = 500;
const BATCH_BYTES_MAX = 4 * 1024 * 1024;
const QUEUE_APPENDS_MAX = 10_000;
const QUEUE_BYTES_MAX = 64 * 1024 * 1024;

/** Commits appends in batches. See C1 to C4. */
export class AppendBatcher {
  private queue: PendingAppend[] = [];
  private queuedBytes = 0;
  private draining = false;
  private drained: Promise<void> = Promise.resolve();
  private closed = false;
  private current: Promise<unknown> | null = null;

  constructor(
    private readonly pool: pg.Pool,
    /** The name of the append function. */
    private readonly procedure: string,
  ) {}

  /** Queues the append for the next batch. Throws `EventStoreUnavailable`, `OutcomeUnknown`. */
  append(append: Append): Promise<Outcome> {
    if (this.closed) return Promise.reject(new EventStoreUnavailable(new Error('the event store is closed')));
    if (this.queue.length >= QUEUE_APPENDS_MAX || this.queuedBytes + append.size > QUEUE_BYTES_MAX)
      return Promise.reject(new EventStoreUnavailable(new Error('too many appends are waiting')));
    return new Promise((resolve, reject) => {
      this.queue.push({ ...append, resolve, reject });
      this.queuedBytes += append.size;
      if (!this.draining) this.drained = this.drain();
    });
  }

  /** A promise that resolves when the transaction in flight has ended; null if there is none. */
  get inFlight(): Promise<unknown> | null {
    return this.current;
  }

  /** Refuses further appends, and waits for those that are queued. */
  async close(): Promise<void> {
    this.closed = true;
    await this.drained;
  }

  private async drain(): Promise<void> {
    this.draining = true;
    while (this.queue.length > 0) {
      const batch = this.dequeueBatch();
      this.current = this.commitEach(batch);
      await this.current;
      this.current = null;
      // Callers whose appends were just committed can append again, into one batch. A single caller need not wait for others.
      if (batch.length > 1) await yieldToEventLoop();
    }
    // No await lies between the check of the queue and this line, so a later append starts a new drain.
    this.draining = false;
  }

  private dequeueBatch(): PendingAppend[] {
    const batch: PendingAppend[] = [];
    const rest: PendingAppend[] = [];
    const streams = new Set<string>();
    let size = 0;
    for (const append of this.queue) {
      const fits = batch.length < BATCH_APPENDS_MAX && (batch.length === 0 || size + append.size <= BATCH_BYTES_MAX);
      if (!fits || streams.has(append.stream)) rest.push(append);
      else {
        batch.push(append);
        size += append.size;
      }
      // C2: Appends to one stream keep their order, whether they fit into this batch or not.
      streams.add(append.stream);
    }
    this.queue = rest;
    this.queuedBytes -= size;
    return batch;
  }

  /** C3: Commits a batch, or each of its appends by itself if the database refuses the batch as a whole. */
  private async commitEach(batch: PendingAppend[]): Promise<void> {
    if ((await this.commit(batch)) === 'refused') for (const append of batch) await this.commit([append]);
  }

  private async commit(batch: PendingAppend[]): Promise<'settled' | 'refused'> {
    try {
      if (!(await this.appendOne(batch))) await this.appendAll(batch);
      return 'settled';
    } catch (error) {
      const known = error instanceof EventStoreUnavailable || error instanceof ResponseLost;
      if (!known && batch.length > 1) return 'refused';
      for (const append of batch) append.reject(error instanceof ResponseLost ? new OutcomeUnknown(append.stream, error.cause) : error);
      return 'settled';
    }
  }

  /** Appends a single event by a faster function. Returns false if it was not appended and has to be appended with the batch function. */
  private async appendOne([append, ...others]: PendingAppend[]): Promise<boolean> {
    const [event, ...more] = append?.events ?? [];
    if (!append || !event || others.length > 0 || more.length > 0) return false;
    const procedure = `${this.procedure}_one`;
    const text = `select public.${procedure}($1, $2, $3, $4, $5, $6, $7)`;
    const values = [append.stream, append.expected, event.id, event.type, event.schemaVersion, event.data, event.metadata];
    const [row] = await runOnce<[[position: string, at: string] | null]>(this.pool, { name: procedure, text, values });
    if (!row?.[0]) return false;
    const [position, at] = row[0];
    append.resolve({ verdict: 'A', revision: append.expected + 1, position: Number(position), at: Number(at) });
    return true;
  }

  private async appendAll(batch: PendingAppend[]): Promise<void> {
    const [row] = await runOnce<[AppendFunctionResult]>(this.pool, {
      name: this.procedure,
      text: `select public.${this.procedure}($1)`,
      values: [json(batch)],
    });
    if (!row) throw new Error(`${this.procedure} returned no row`);
    const { at, before, outcomes } = row[0];
    let position = before;
    for (const [i, append] of batch.entries()) {
      position += append.events.length;
      const [verdict, revision, where] = outcomes?.[i] ?? ['A', append.expected + append.events.length, position];
      append.resolve({ verdict, revision, position: where, at });
    }
  }
}

/** Builds the JSON by hand, since data and metadata are JSON texts already and must be stored unchanged. */
function json(batch: Append[]): string {
  let text = '[';
  let o = 0;
  for (const [i, { stream, expected, events }] of batch.entries())
    for (const [k, { id, type, schemaVersion, data, metadata }] of events.entries()) {
      o += 1;
      text += `${o > 1 ? ',' : ''}{"o":${o},"i":${i},"s":${JSON.stringify(stream)},"e":${expected},"k":${k + 1},"id":"${id}","t":${JSON.stringify(type)},"v":${schemaVersion},"d":${data},"m":${metadata}}`;
    }
  return `${text}]`;
}
