import { LRUCache } from 'lru-cache';
import type { StoredEvent } from '../event-store.ts';
import { sizeOf } from './size.ts';
import type { AnyDecider, StreamState } from './stream-state.ts';

/** The part of the cache that one stream may take: larger states are loaded each time, rather than that they push out many others. */
const STREAM_SHARE = 1 / 4;
/** The part of a full cache above which an account pays for its new states with its own older ones. */
const ACCOUNT_SHARE = 1 / 4;
/** What an entry takes beside its states (bytes). */
const ENTRY_BYTES = 400;
/** Growth (bytes) up to which a state is not measured anew, however small it is. */
const UNMEASURED_BYTES = 4_096;

interface Kept {
  state: StreamState;
  /** When it was last walked, bytes. */
  measured: number;
  /** Of the events that were folded in since, bytes. */
  grown: number;
}

interface Entry {
  states: ReadonlyMap<AnyDecider, Kept>;
  bytes: number;
  account: string;
}

interface Share {
  bytes: number;
  /** Whose state changed longest ago first. */
  streams: Set<string>;
}

/**
 * Streams' states by decider, the least recently used forgotten first, within a bound in bytes. The sizes are estimates: a state is
 * walked when it comes in and again when the events since then took more than a quarter of it; between, their size is added.
 */
export class StateCache {
  readonly #entries: LRUCache<string, Entry>;
  readonly #shares = new Map<string, Share>();

  constructor(private readonly maxBytes: number) {
    this.#entries = new LRUCache({
      maxSize: maxBytes,
      maxEntrySize: Math.max(1, Math.floor(maxBytes * STREAM_SHARE)),
      sizeCalculation: ({ bytes }) => bytes,
      dispose: (entry, stream) => this.#left(entry, stream),
    });
  }

  /** As estimated. */
  get bytes(): number {
    return this.#entries.calculatedSize;
  }

  get<S>(stream: string, decider: AnyDecider<S>): StreamState<S> | undefined {
    return this.#entries.get(stream)?.states.get(decider)?.state as StreamState<S> | undefined;
  }

  /** The states of the stream, without counting as a use of them. */
  peek(stream: string): [AnyDecider, StreamState][] {
    return [...(this.#entries.peek(stream)?.states ?? [])].map(([decider, { state }]) => [decider, state]);
  }

  put(stream: string, decider: AnyDecider, state: StreamState): void {
    this.#set(stream, decider, { state, measured: measure(state), grown: 0 });
  }

  /** Puts the state in the place of the one that it was made from by these events. */
  advance(stream: string, decider: AnyDecider, state: StreamState, events: readonly StoredEvent[]): void {
    const kept = this.#entries.peek(stream)?.states.get(decider);
    if (kept === undefined) return this.put(stream, decider, state);
    const grown = kept.grown + events.reduce((sum, { data }) => sum + sizeOf(data), 0);
    if (grown > Math.max(UNMEASURED_BYTES, kept.measured / 4)) this.put(stream, decider, state);
    else this.#set(stream, decider, { state, measured: kept.measured, grown });
  }

  forget(stream: string): void {
    this.#entries.delete(stream);
  }

  clear(): void {
    this.#entries.clear();
  }

  #set(stream: string, decider: AnyDecider, kept: Kept): void {
    const states = new Map(this.#entries.peek(stream)?.states).set(decider, kept);
    const bytes = [...states.values()].reduce((sum, { measured, grown }) => sum + measured + grown, ENTRY_BYTES);
    const entry = { states, bytes, account: kept.state.account ?? '' };
    this.#makeRoom(stream, entry);
    this.#entries.set(stream, entry);
    // One that is too large was not taken in.
    if (this.#entries.peek(stream) === entry) this.#cameIn(entry, stream);
  }

  /** Has an account that holds much of a full cache give up its own. */
  #makeRoom(stream: string, { account, bytes }: Entry): void {
    const share = this.#shares.get(account);
    if (share === undefined || this.bytes + bytes <= this.maxBytes) return;
    for (const own of share.streams) {
      if (share.bytes <= this.maxBytes * ACCOUNT_SHARE || this.bytes + bytes <= this.maxBytes) return;
      if (own !== stream) this.#entries.delete(own);
    }
  }

  #cameIn({ account, bytes }: Entry, stream: string): void {
    const share = this.#shares.get(account) ?? { bytes: 0, streams: new Set() };
    share.bytes += bytes;
    share.streams.add(stream);
    this.#shares.set(account, share);
  }

  #left({ account, bytes }: Entry, stream: string): void {
    const share = this.#shares.get(account);
    if (share === undefined) return;
    share.bytes -= bytes;
    share.streams.delete(stream);
    if (share.streams.size === 0) this.#shares.delete(account);
  }
}

function measure({ state, derivedIds }: StreamState): number {
  return sizeOf(state) + derivedIds.byteLength;
}
