import { setTimeout as wait } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { LRUCache } from 'lru-cache';
import { Config } from '../../../config.ts';
import { EventStore, type Position, type StoredEvent } from '../event-store.ts';
import { LogFollower } from '../log-follower.ts';
import { sizeOf } from './size.ts';
import { Snapshots } from './snapshots.ts';
import { StateCache } from './state-cache.ts';
import { absent, advanced, type AnyDecider, type StreamState } from './stream-state.ts';

/** Events of a stream that are read before anybody asks for a snapshot of it: most streams are shorter. */
const FIRST_EVENTS = 200;
/** A snapshot is due this many events after the one before. */
const SNAPSHOT_EVENTS = 500;
/** … but a large state is written more seldom: after one event for each so many bytes that it takes. */
const SNAPSHOT_BYTES_PER_EVENT = 1_000;
/** Streams whose last heard revision is remembered: what is heard of so many while one is read says nothing of it any more. */
const HEARD_MAX = 20_000;
/** How often a stream is read on where the store's answer lacks events that were heard; each further time after twice the wait (ms). */
const READS_MAX = 6;
const READ_AGAIN_MS = 100;
/** Events that are folded in at a time. */
const FOLD_AT_ONCE = 500;

/** A moment in what was heard of the log; what is remembered can be compared with what was read since. */
export type Moment = number;

/**
 * Streams' states as this process knows them. What stands in the cache holds every event of its stream that was heard of the log, since
 * each is folded in as it is heard; so a state is the newest as soon as the log's end has been heard, without a look at the stream.
 */
@Injectable()
export class StreamStates {
  readonly #cache: StateCache;
  /** By stream, the revision of the last event that was heard. */
  readonly #heard = new LRUCache<string, number>({ max: HEARD_MAX });
  #moment: Moment = 0;

  constructor(
    private readonly store: EventStore,
    private readonly follower: LogFollower,
    private readonly snapshots: Snapshots,
    config: Config,
  ) {
    this.#cache = new StateCache(config.stateCacheMb * 1024 * 1024);
    follower.listen({ onEvents: (events) => this.#hear(events), onGap: () => this.#miss() });
  }

  /** Now, for `appended`. */
  get moment(): Moment {
    return this.#moment;
  }

  /** The state as far as it is known here; another replica may have written since. */
  known<S>(stream: string, decider: AnyDecider<S>): StreamState<S> | undefined {
    return this.#cache.get(stream, decider);
  }

  /** The state with all that was in the log up to the position, or at the time of the call. Throws `EventStoreUnavailable`. */
  async newest<S>(stream: string, decider: AnyDecider<S>, upTo?: Position): Promise<StreamState<S>> {
    const before = this.known(stream, decider);
    if (before === undefined) return this.read(stream, decider);
    if (upTo !== undefined && upTo <= this.follower.heard) return before;
    const head = await this.#hearHead();
    const known = this.known(stream, decider);
    if (head === null || known === undefined) return this.read(stream, decider);
    if (head >= before.position) return known;
    // The log ends before an event that was in it: it was put back to an older state.
    this.forget(stream);
    return this.read(stream, decider);
  }

  /** The same by a look at the stream. */
  async read<S>(stream: string, decider: AnyDecider<S>): Promise<StreamState<S>> {
    for (let reads = 1; ; reads += 1) {
      const since = this.#moment;
      const found = await this.#readOn(stream, decider);
      if (found.revision < 0) return found;
      if (this.#isComplete(stream, found, since)) return this.#keep(stream, decider, found);
      // Events came meanwhile; or a node of the store lags, or the log was put back. What is not known to be complete is not kept.
      if (reads === READS_MAX) {
        this.forget(stream);
        return found;
      }
      if (reads > 1) await wait(READ_AGAIN_MS * 2 ** (reads - 2));
    }
  }

  /** The state after events that were appended to it here. `since` is a moment before the append began. */
  appended<S>(
    stream: string,
    decider: AnyDecider<S>,
    before: StreamState<S>,
    events: readonly StoredEvent[],
    since: Moment,
  ): StreamState<S> {
    const after = this.#withSnapshot(stream, decider, advanced(decider, before, events));
    if (this.#cache.get(stream, decider)?.eventId === before.eventId) this.#cache.advance(stream, decider, after, events);
    else if (this.#isComplete(stream, after, since)) this.#keep(stream, decider, after);
    for (const event of events) this.#take(event);
    return after;
  }

  /** Nothing that is known of the stream counts any more. */
  forget(stream: string): void {
    this.#cache.forget(stream);
    this.#heard.delete(stream);
  }

  #hear(events: readonly StoredEvent[]): void {
    for (const event of events) {
      this.#moment += 1;
      this.#heard.set(event.stream, event.revision);
      this.#take(event);
    }
  }

  /** Events were passed over: whatever they were, nothing that is remembered holds them. */
  #miss(): void {
    this.#moment += HEARD_MAX + 1;
    this.#cache.clear();
    this.#heard.clear();
  }

  /** Folds the event into what stands in the cache of its stream; what it does not continue is forgotten. */
  #take(event: StoredEvent): void {
    const { stream, revision, id } = event;
    try {
      for (const [decider, known] of this.#cache.peek(stream)) {
        if (revision < known.revision || (revision === known.revision && id === known.eventId)) continue;
        this.#cache.advance(stream, decider, advanced(decider, known, [event]), [event]);
      }
    } catch {
      this.#cache.forget(stream);
    }
  }

  /** The log's end, once all before it was heard; null where that is not to be had, so that the stream has to be asked. */
  async #hearHead(): Promise<Position | null> {
    if (!this.follower.started) return null;
    return this.follower.hearHead().catch(() => null);
  }

  #keep<S>(stream: string, decider: AnyDecider<S>, state: StreamState<S>): StreamState<S> {
    const known = this.#cache.get(stream, decider);
    if (known !== undefined && known.revision >= state.revision) return known;
    this.#cache.put(stream, decider, state);
    return state;
  }

  /** Whether nothing was heard of the stream that the state lacks. */
  #isComplete(stream: string, { revision }: StreamState, since: Moment): boolean {
    return this.#moment - since <= HEARD_MAX && (this.#heard.peek(stream) ?? -1) <= revision;
  }

  async #readOn<S>(stream: string, decider: AnyDecider<S>): Promise<StreamState<S>> {
    const known = this.known(stream, decider);
    const found = known === undefined ? null : await this.#continued(stream, decider, known);
    if (found !== null) return found;
    if (known !== undefined) this.forget(stream);
    return this.#withSnapshot(stream, decider, await this.#fromStart(stream, decider));
  }

  async #fromStart<S>(stream: string, decider: AnyDecider<S>): Promise<StreamState<S>> {
    const first = this.store.readStream(stream, { limit: FIRST_EVENTS });
    const begun = await folded(decider, absent(decider), first);
    if (begun.revision + 1 < FIRST_EVENTS) return begun;
    const later =
      decider.snapshot === undefined ? await this.#standing(stream, decider) : await this.snapshots.find<S>(stream, decider.snapshot);
    const continued = later !== null && later.revision > begun.revision ? await this.#continued(stream, decider, later) : null;
    if (continued !== null) return continued;
    let state = begun;
    for await (const events of this.store.readStreamInBulk(stream, begun.revision + 1)) state = advanced(decider, state, events);
    return state;
  }

  async #standing<S>(stream: string, decider: AnyDecider<S>): Promise<StreamState<S> | null> {
    const standing = (await decider.standing?.(stream)) ?? null;
    if (standing === null) return null;
    for await (const { position, id, metadata } of this.store.readStream(stream, { from: standing.revision, limit: 1 }))
      return { ...absent(decider), ...standing, position, eventId: id, account: metadata.account_id };
    return null;
  }

  /** The state with what follows in its stream; null where its last event does not stand there, since the log was put back. */
  async #continued<S>(stream: string, decider: AnyDecider<S>, from: StreamState<S>): Promise<StreamState<S> | null> {
    const events = this.store.readStream(stream, { from: from.revision })[Symbol.asyncIterator]();
    const last = await events.next();
    if (last.done === true || last.value.revision !== from.revision || last.value.id !== from.eventId) {
      await events.return?.();
      return null;
    }
    // The store may be another one by now, where the same event has another position.
    return folded(decider, { ...from, position: last.value.position }, { [Symbol.asyncIterator]: () => events });
  }

  /** Has a snapshot written in the background where one is due. */
  #withSnapshot<S>(stream: string, decider: AnyDecider<S>, state: StreamState<S>): StreamState<S> {
    const events = state.revision - state.snapshotAt;
    if (decider.snapshot === undefined || events < SNAPSHOT_EVENTS) return state;
    if (events < sizeOf(state.state) / SNAPSHOT_BYTES_PER_EVENT) return state;
    this.snapshots.take(stream, decider.snapshot, state);
    return { ...state, snapshotAt: state.revision };
  }
}

async function folded<S>(decider: AnyDecider<S>, from: StreamState<S>, events: AsyncIterable<StoredEvent>): Promise<StreamState<S>> {
  let state = from;
  let batch: StoredEvent[] = [];
  for await (const event of events) {
    batch.push(event);
    if (batch.length < FOLD_AT_ONCE) continue;
    state = advanced(decider, state, batch);
    batch = [];
  }
  return advanced(decider, state, batch);
}
