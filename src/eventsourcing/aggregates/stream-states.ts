/**
 * The states of streams in the memory of this process.
 *
 * Owns: the cache of states, the streams known not to exist, and the last revision received of each stream. Does not own the following of
 * the log (`LogFollower`) or the writing of snapshots (`Snapshots`).
 *
 * S1  A cached state contains every event of its stream that was received from the log, since each is applied on arrival. So once the log's
 *     head has been received, the state is the newest, and the stream need not be read.
 * S2  A state that was read is cached only if no received event is missing in it. If too many events arrived during the read to know that,
 *     it is not cached.
 * S3  An event that does not directly follow a cached state evicts that state. After a gap in the log everything is evicted.
 * S4  That a stream does not exist is remembered until an event of it is received.
 * S5  A log that ends before an event that it held was restored to an older state: the states of the stream are evicted and read again.
 * S6  Memory is bounded in bytes with a share for each account. Reads for callers who are not known have a small share of the database.
 */
import { Injectable } from '@nestjs/common';
import { LRUCache } from 'lru-cache';
import { Backoff } from '../../kernel/async/retry.ts';
import { Config } from '../../kernel/config/config.ts';
import { EventStore, type Position, type StoredEvent } from '../event-store/event-store.ts';
import { LogFollower } from '../log/log-follower.ts';
import { AbsentStreams } from './absent-streams.ts';
import { sizeOf } from './size.ts';
import { Snapshots } from './snapshots.ts';
import { StateCache } from './state-cache.ts';
import { absentState, applyEvents, type AnyDecider, type StreamState } from './stream-state.ts';
import { AnonymousReads } from './anonymous-reads.ts';

/** The number of events that are read before a snapshot is looked up, since most streams are shorter. */
const FIRST_READ_EVENTS = 200;
/** The number of events after which the next snapshot is due. */
const SNAPSHOT_EVENTS = 500;
/** One event must pass for each of this many bytes of a state before its next snapshot, so that large states are written less often. */
const SNAPSHOT_BYTES_PER_EVENT = 1_000;
/**
 * S2: The number of streams whose last received revision is remembered. After more events than this, the completeness of a read is unknown.
 */
const RECEIVED_REVISIONS_MAX = 20_000;
/** The most reads of a stream while received events are missing in the result, and the first wait between reads in ms, which doubles. */
const READS_MAX = 6;
const REREAD_DELAY_MS = 100;
/** The number of events that are applied at a time. */
const APPLY_BATCH_EVENTS = 500;

/** A count of the events received so far, to be compared with a later count. */
export type ReceivedCount = number;

/** Options of a read: the caller, and how new the state has to be. */
export interface ReadOptions {
  /** The position up to which the state has to include every event; by default the log's head at the time of the call. */
  upTo?: Position | undefined;
  /** S6: The network of a caller that is not known, whose reads have a small share of the database. */
  anonymousNetwork?: string | undefined;
}

/** The cached states of streams. See S1 to S6. */
@Injectable()
export class StreamStates {
  private readonly cache: StateCache;
  private readonly absences = new AbsentStreams();
  private readonly anonymousReads = new AnonymousReads();
  /** The revision of the last event received, by stream. */
  private readonly receivedRevisions = new LRUCache<string, number>({ max: RECEIVED_REVISIONS_MAX });
  private received: ReceivedCount = 0;

  constructor(
    private readonly store: EventStore,
    private readonly follower: LogFollower,
    private readonly snapshots: Snapshots,
    config: Config,
  ) {
    this.cache = new StateCache(config.stateCacheMb * 1024 * 1024);
    follower.listen({ onEvents: (events) => this.onEvents(events), onGap: () => this.onGap() });
  }

  /** The current moment, for `appended`. */
  get receivedCount(): ReceivedCount {
    return this.received;
  }

  /** Returns the cached state, which may be older than the stream, because another replica may have written. */
  cached<S>(stream: string, decider: AnyDecider<S>): StreamState<S> | undefined {
    return this.cache.get(stream, decider);
  }

  /**
   * Returns the state with all events up to the position, or up to the log's head at the time of the call. Throws `EventStoreUnavailable`,
   * and `rate_limited` for a caller that is not known.
   */
  async newest<S>(stream: string, decider: AnyDecider<S>, { upTo, anonymousNetwork: stranger }: ReadOptions = {}): Promise<StreamState<S>> {
    const before = this.cached(stream, decider);
    if (before === undefined) {
      if (await this.isAbsent(stream, upTo)) return absentState(decider);
      if (stranger === undefined) return this.read(stream, decider);
      return this.anonymousReads.run(stranger, () => this.readForAnonymous(stream, decider));
    }
    if (upTo !== undefined && upTo <= this.follower.position) return before;
    const head = await this.catchUpToHead();
    const known = this.cached(stream, decider);
    if (head === null || known === undefined) return this.read(stream, decider);
    if (head >= before.position) return known;
    // S5: The log ends before an event that it held.
    this.evict(stream);
    return this.read(stream, decider);
  }

  /** Returns the newest state by reading the stream. Throws `EventStoreUnavailable`. */
  async read<S>(stream: string, decider: AnyDecider<S>, isForStranger = false): Promise<StreamState<S>> {
    const backoff = new Backoff({ firstMs: REREAD_DELAY_MS, lastMs: Infinity });
    for (let reads = 1; ; reads += 1) {
      const since = this.received;
      const { position } = this.follower;
      const found = await this.continueFromCache(stream, decider);
      if (found.revision < 0) {
        if (this.isComplete(stream, found, since)) this.absences.add(stream, position, isForStranger);
        return found;
      }
      // S4: Another replica may have begun the stream, and its event has not arrived here yet.
      this.absences.evict(stream);
      if (this.isComplete(stream, found, since)) return this.cacheIfNewer(stream, decider, found);
      // S2: Events arrived meanwhile, or a node of the store lags, or the log was restored.
      if (reads === READS_MAX) {
        this.evict(stream);
        return found;
      }
      if (reads > 1) await backoff.pause();
    }
  }

  /** Returns the state after events that this process appended. `since` is the count of received events before the append began. */
  applyAppended<S>(
    stream: string,
    decider: AnyDecider<S>,
    before: StreamState<S>,
    events: readonly StoredEvent[],
    since: ReceivedCount,
  ): StreamState<S> {
    const after = this.withSnapshot(stream, decider, applyEvents(decider, before, events));
    if (this.cache.get(stream, decider)?.eventId === before.eventId) this.cache.advance(stream, decider, after, events);
    else if (this.isComplete(stream, after, since)) this.cacheIfNewer(stream, decider, after);
    for (const event of events) this.apply(event);
    return after;
  }

  /** Evicts everything that is known of the stream. */
  evict(stream: string): void {
    this.cache.evict(stream);
    this.absences.evict(stream);
    this.receivedRevisions.delete(stream);
  }

  private onEvents(events: readonly StoredEvent[]): void {
    for (const event of events) {
      this.received += 1;
      this.receivedRevisions.set(event.stream, event.revision);
      this.apply(event);
    }
  }

  /** S3: Evicts everything: the skipped events may belong to any stream. */
  private onGap(): void {
    this.received += RECEIVED_REVISIONS_MAX + 1;
    this.cache.clear();
    this.absences.clear();
    this.receivedRevisions.clear();
  }

  /** S1, S3, S4: Applies the event to the cached states of its stream, or evicts those that it does not directly follow. */
  private apply(event: StoredEvent): void {
    const { stream, revision, id } = event;
    this.absences.evict(stream);
    try {
      for (const [decider, known] of this.cache.peek(stream)) {
        if (revision < known.revision || (revision === known.revision && id === known.eventId)) continue;
        this.cache.advance(stream, decider, applyEvents(decider, known, [event]), [event]);
      }
    } catch {
      this.cache.evict(stream);
    }
  }

  /** Returns whether the stream is known to be absent, up to the position or up to the log's head at the time of the call. */
  private async isAbsent(stream: string, upTo: Position | undefined): Promise<boolean> {
    const found = this.absences.get(stream);
    if (found === undefined) return false;
    if (upTo !== undefined && upTo <= this.follower.position) return true;
    const head = await this.catchUpToHead();
    if (head === null) return false;
    // S5: A log that ends earlier than it did was restored to an older state, and may have continued differently since.
    if (head < found) this.absences.evict(stream);
    return this.absences.get(stream) !== undefined;
  }

  /** Reads the stream, unless another caller has done so while this one waited for its turn. */
  private async readForAnonymous<S>(stream: string, decider: AnyDecider<S>): Promise<StreamState<S>> {
    if (this.cached(stream, decider) !== undefined) return this.newest(stream, decider);
    return (await this.isAbsent(stream, undefined)) ? absentState(decider) : this.read(stream, decider, true);
  }

  /** Returns the log's head once all events up to it were received; null if that fails, so that the stream has to be read. */
  private async catchUpToHead(): Promise<Position | null> {
    if (!this.follower.started) return null;
    return this.follower.catchUpToHead().catch(() => null);
  }

  private cacheIfNewer<S>(stream: string, decider: AnyDecider<S>, state: StreamState<S>): StreamState<S> {
    const known = this.cache.get(stream, decider);
    if (known !== undefined && known.revision >= state.revision) return known;
    this.cache.put(stream, decider, state);
    return state;
  }

  /** S2: Returns whether the state contains every event of the stream that was received. */
  private isComplete(stream: string, { revision }: StreamState, since: ReceivedCount): boolean {
    return this.received - since <= RECEIVED_REVISIONS_MAX && (this.receivedRevisions.peek(stream) ?? -1) <= revision;
  }

  private async continueFromCache<S>(stream: string, decider: AnyDecider<S>): Promise<StreamState<S>> {
    const known = this.cached(stream, decider);
    const found = known === undefined ? null : await this.readAfter(stream, decider, known);
    if (found !== null) return found;
    if (known !== undefined) this.evict(stream);
    return this.withSnapshot(stream, decider, await this.readFromStart(stream, decider));
  }

  private async readFromStart<S>(stream: string, decider: AnyDecider<S>): Promise<StreamState<S>> {
    const first = this.store.readStream(stream, { limit: FIRST_READ_EVENTS });
    const begun = await applyAll(decider, absentState(decider), first);
    if (begun.revision + 1 < FIRST_READ_EVENTS) return begun;
    const later = decider.snapshot === undefined ? null : await this.snapshots.find<S>(stream, decider.snapshot);
    const continued = later !== null && later.revision > begun.revision ? await this.readAfter(stream, decider, later) : null;
    if (continued !== null) return continued;
    let state = begun;
    for await (const events of this.store.readStreamInBulk(stream, begun.revision + 1)) state = applyEvents(decider, state, events);
    return state;
  }

  /**
   * Returns the state with the events that follow it in its stream; null if its last event is not in the stream, because the log was
   * restored.
   */
  private async readAfter<S>(stream: string, decider: AnyDecider<S>, from: StreamState<S>): Promise<StreamState<S> | null> {
    const events = this.store.readStream(stream, { from: from.revision })[Symbol.asyncIterator]();
    const last = await events.next();
    if (last.done === true || last.value.revision !== from.revision || last.value.id !== from.eventId) {
      await events.return?.();
      return null;
    }
    // The log may have moved to another store, where the same event has another position.
    return applyAll(decider, { ...from, position: last.value.position }, { [Symbol.asyncIterator]: () => events });
  }

  /** Starts writing a snapshot in the background if one is due. */
  private withSnapshot<S>(stream: string, decider: AnyDecider<S>, state: StreamState<S>): StreamState<S> {
    const events = state.revision - state.snapshotAt;
    if (decider.snapshot === undefined || events < SNAPSHOT_EVENTS) return state;
    if (events < sizeOf(state.state) / SNAPSHOT_BYTES_PER_EVENT) return state;
    this.snapshots.schedule(stream, decider.snapshot, state);
    return { ...state, snapshotAt: state.revision };
  }
}

async function applyAll<S>(decider: AnyDecider<S>, from: StreamState<S>, events: AsyncIterable<StoredEvent>): Promise<StreamState<S>> {
  let state = from;
  let batch: StoredEvent[] = [];
  for await (const event of events) {
    batch.push(event);
    if (batch.length < APPLY_BATCH_EVENTS) continue;
    state = applyEvents(decider, state, batch);
    batch = [];
  }
  return applyEvents(decider, state, batch);
}
