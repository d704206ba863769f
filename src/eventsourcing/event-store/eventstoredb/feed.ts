/**
 * Keeps the newest events of one class in memory, as the server sends them.
 *
 * Owns: one subscription to the server, shared by all who follow the log at its end, and the events after `from` up to `upTo`. Does not own
 * their positions: a subscriber that is further behind reads from the log.
 *
 * F1  All events of the class after `from`, up to `upTo`, are kept. The oldest are evicted beyond a number or size.
 * F2  Events are stored without waiting for any subscriber, so the server never drops the feed as too slow.
 * F3  When the subscription breaks off, or stays behind the log's end for too long, another begins after the last event. Events of an
 *     earlier subscription are ignored.
 * F4  After the log was restored to an older state, the feed starts over at its end.
 */
import { ErrorType, streamNameFilter, type AllStreamSubscription } from '@eventstore/db-client';
import { Logger } from '@nestjs/common';
import { Backoff } from '../../../kernel/async/retry.ts';
import type { EventCatalogue } from '../event-catalogue.ts';
import { START, type EventClass, type EventFilter, type Position, type StoredEvent } from '../event-store.ts';
import type { Batch } from '../events-up-to.ts';
import type { Connection } from './connection.ts';
import { fromServer, serverPosition, positionOf, toPort, type Recorded } from './envelope.ts';
import { isOfType } from './faults.ts';
import { passes, type EventReader } from './reading.ts';

const BUFFERED_EVENTS_MAX = 2_000;
const BUFFERED_BYTES_MAX = 8 * 1024 * 1024;
const BATCH_EVENTS_MAX = 1_000;
/** The number of pages, of 32 events each, that the server reads between two checkpoints. */
const CHECKPOINT_EVENTS = 32;
/** The first and the longest wait before a new subscription, in ms, jittered by half. */
const FIRST_RETRY_MS = 50;
const LAST_RETRY_MS = 5_000;
/** F3: The time for which the log may be ahead of what the server sent before the subscription counts as dead, in ms. */
const SILENT_FOR_MS = 3_000;

interface FeedEvent {
  recorded: Recorded;
  event?: StoredEvent;
  size: number;
}

const logger = new Logger('EventStore');

/** The feed of one class of events. See F1 to F4. */
export class Feed {
  private readonly stopping = new AbortController();
  private buffered: FeedEvent[] = [];
  private bufferedBytes = 0;
  /** F1: All events of the class after `from`, up to `upTo`, are kept. */
  private from: Position = START;
  private upTo: Position = START;
  /** F3: The number of the current subscription. Events of earlier ones are ignored. */
  private generation = 0;
  private subscription: AllStreamSubscription | null = null;
  private running: Promise<void> | null = null;
  private endSubscription: () => void = () => undefined;
  private behindSince: number | null = null;
  private progressed = false;

  constructor(
    private readonly connection: Connection,
    private readonly reader: EventReader,
    private readonly catalogue: EventCatalogue,
    private readonly eventClass: EventClass,
    private readonly onMoved: (upTo: Position) => void,
  ) {
    connection.onRenewed(() => this.endSubscription());
  }

  /** Begins at the log's end; does nothing if the feed is running. */
  start(): void {
    this.running ??= this.run();
  }

  async stop(): Promise<void> {
    this.stopping.abort();
    this.endSubscription();
    await this.running;
  }

  /** Returns the events after the position, or null if they have to be read from the log. */
  eventsAfter(position: Position, filter: EventFilter): Batch | null {
    if (this.generation === 0 || position < this.from || position > this.upTo) return null;
    let next = this.buffered.length;
    while (next > 0 && (this.buffered[next - 1] as FeedEvent).recorded.position > position) next -= 1;
    const some = this.buffered.slice(next, next + BATCH_EVENTS_MAX);
    const last = next + BATCH_EVENTS_MAX < this.buffered.length ? some.at(-1) : undefined;
    const events = some
      .filter(({ recorded }) => passes(recorded, filter))
      .map((kept) => (kept.event ??= toPort(kept.recorded, this.catalogue)));
    return { events, upTo: last?.recorded.position ?? this.upTo };
  }

  /** F3: Compares the feed with the log's end, which a caller has read. A subscription that stays behind for 3 s is replaced. */
  noteHead(head: Position): void {
    if (head <= this.upTo) this.behindSince = null;
    else if (this.behindSince === null) this.behindSince = performance.now();
    else if (performance.now() - this.behindSince > SILENT_FOR_MS) this.endSubscription();
  }

  private async run(): Promise<void> {
    const { signal } = this.stopping;
    const backoff = new Backoff({ firstMs: FIRST_RETRY_MS, lastMs: LAST_RETRY_MS, jitter: true });
    while (!signal.aborted) {
      this.progressed = false;
      try {
        await this.startAtHead();
        if (!signal.aborted) await this.runSubscription();
      } catch (error) {
        const { message, cause } = error as Error;
        const text = `The subscription to the ${this.eventClass} log begins again: ${(cause as Error | undefined)?.message ?? message}`;
        // The server drops subscribers that it finds slow; on a busy machine that is normal.
        if (isOfType(error, ErrorType.TIMEOUT)) logger.debug(text);
        else logger.warn(text);
      }
      if (this.progressed) backoff.reset();
      await backoff.pause(signal, { ref: false });
    }
  }

  /**
   * F4: Begins at the log's head, and again if the log ends before `upTo` (it was restored to an older state): the server would take a
   * position beyond its end for its end, and then send events with lower positions.
   */
  private async startAtHead(): Promise<void> {
    const head = await this.reader.head(this.eventClass);
    if (this.generation > 0 && this.upTo <= (await this.reader.end())) return;
    if (this.generation > 0) logger.warn(`The event store returned with an older log: its end is ${head}, not ${this.upTo}`);
    this.buffered = [];
    this.bufferedBytes = 0;
    this.from = this.upTo = head;
    this.onMoved(head);
  }

  /** Runs one subscription until it breaks off; throws its error. */
  private async runSubscription(): Promise<void> {
    const generation = (this.generation += 1);
    this.behindSince = null;
    await new Promise<void>((resolve, reject) => {
      const filter = streamNameFilter({
        ...this.connection.names.filters[this.eventClass],
        checkpointInterval: CHECKPOINT_EVENTS,
        // A checkpoint with two different numbers lies before the event at its position, which has not been sent yet.
        checkpointReached: (_, { commit, prepare }) => {
          if (generation === this.generation && commit === prepare) this.moveTo(positionOf(commit));
        },
      });
      const fromPosition = this.upTo === START ? ('start' as const) : serverPosition(this.upTo);
      const { credentials, client } = this.connection;
      const subscription = client.subscribeToAll({ fromPosition, filter, requiresLeader: true, credentials });
      this.subscription = subscription;
      this.endSubscription = () => {
        this.generation += 1;
        resolve();
      };
      subscription.on('data', (resolved) => {
        const event = generation === this.generation ? fromServer(resolved, this.connection.names) : null;
        if (event !== null && event.position > this.upTo) this.push(event);
      });
      // This listener is never removed: an error after the end must not end the process.
      subscription.on('error', reject);
      subscription.on('end', resolve);
    }).finally(() => this.unsubscribe());
  }

  private unsubscribe(): void {
    this.generation += 1;
    this.endSubscription = () => undefined;
    const subscription = this.subscription;
    this.subscription = null;
    void subscription?.unsubscribe().catch(() => undefined);
    subscription?.removeAllListeners('data');
  }

  private push(recorded: Recorded): void {
    const size = JSON.stringify(recorded.data).length;
    this.buffered.push({ recorded, size });
    this.bufferedBytes += size;
    while (this.buffered.length > BUFFERED_EVENTS_MAX || this.bufferedBytes > BUFFERED_BYTES_MAX) {
      const oldest = this.buffered.shift() as FeedEvent;
      this.bufferedBytes -= oldest.size;
      this.from = oldest.recorded.position;
    }
    this.moveTo(recorded.position);
  }

  private moveTo(position: Position): void {
    if (position <= this.upTo) return;
    this.upTo = position;
    this.progressed = true;
    this.connection.noteSuccess();
    this.onMoved(position);
  }
}
