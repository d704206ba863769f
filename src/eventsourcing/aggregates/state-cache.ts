import { LRUCache } from 'lru-cache';
import type { StoredEvent } from '../event-store/event-store.ts';
import { sizeOf } from './size.ts';
import type { AnyDecider, StreamState } from './stream-state.ts';

/** The fraction of the cache that one stream may take. Larger states are loaded each time, so that they do not evict many others. */
const STREAM_SHARE = 1 / 4;
/** The fraction of a full cache above which an account's new states replace its own older ones. */
const ACCOUNT_SHARE = 1 / 4;
/** The size of an entry without its states, in bytes. */
const ENTRY_BYTES = 400;
/** The growth in bytes up to which a state is not measured again, however small the state is. */
const UNMEASURED_BYTES = 4_096;

interface CachedState {
  state: StreamState;
  /** The size at the last measurement, in bytes. */
  measured: number;
  /** The size of the events that were applied since, in bytes. */
  grown: number;
}

interface Entry {
  states: ReadonlyMap<AnyDecider, CachedState>;
  bytes: number;
  account: string;
}

interface AccountUsage {
  bytes: number;
  /** The streams, in the order of their last change. */
  streams: Set<string>;
}

/**
 * Caches states of streams by decider, within a bound in bytes; the least recently used are evicted first. Sizes are estimates: a state is
 * measured when it is added, and again when the events since then exceed a quarter of its size; in between, the sizes of the events are
 * added.
 */
export class StateCache {
  private readonly entries: LRUCache<string, Entry>;
  private readonly usageByAccount = new Map<string, AccountUsage>();

  constructor(private readonly maxBytes: number) {
    this.entries = new LRUCache({
      maxSize: maxBytes,
      maxEntrySize: Math.max(1, Math.floor(maxBytes * STREAM_SHARE)),
      sizeCalculation: ({ bytes }) => bytes,
      dispose: (entry, stream) => this.removeFromAccount(entry, stream),
    });
  }

  /** The estimated size of all entries, in bytes. */
  get bytes(): number {
    return this.entries.calculatedSize;
  }

  get<S>(stream: string, decider: AnyDecider<S>): StreamState<S> | undefined {
    return this.entries.get(stream)?.states.get(decider)?.state as StreamState<S> | undefined;
  }

  /** Returns the states of the stream, without counting as a use of them. */
  peek(stream: string): [AnyDecider, StreamState][] {
    return [...(this.entries.peek(stream)?.states ?? [])].map(([decider, { state }]) => [decider, state]);
  }

  put(stream: string, decider: AnyDecider, state: StreamState): void {
    this.set(stream, decider, { state, measured: measure(state), grown: 0 });
  }

  /** Replaces the cached state by the one after the events. */
  advance(stream: string, decider: AnyDecider, state: StreamState, events: readonly StoredEvent[]): void {
    const kept = this.entries.peek(stream)?.states.get(decider);
    if (kept === undefined) return this.put(stream, decider, state);
    const grown = kept.grown + events.reduce((sum, { data }) => sum + sizeOf(data), 0);
    if (grown > Math.max(UNMEASURED_BYTES, kept.measured / 4)) this.put(stream, decider, state);
    else this.set(stream, decider, { state, measured: kept.measured, grown });
  }

  evict(stream: string): void {
    this.entries.delete(stream);
  }

  clear(): void {
    this.entries.clear();
  }

  private set(stream: string, decider: AnyDecider, kept: CachedState): void {
    const states = new Map(this.entries.peek(stream)?.states).set(decider, kept);
    const bytes = [...states.values()].reduce((sum, { measured, grown }) => sum + measured + grown, ENTRY_BYTES);
    const entry = { states, bytes, account: kept.state.account ?? '' };
    this.evictForAccount(stream, entry);
    this.entries.set(stream, entry);
    // The cache refuses an entry that is too large.
    if (this.entries.peek(stream) === entry) this.addToAccount(entry, stream);
  }

  /** Evicts other entries of an account that holds a large part of a full cache, so that its new entry evicts none of other accounts. */
  private evictForAccount(stream: string, { account, bytes }: Entry): void {
    const share = this.usageByAccount.get(account);
    if (share === undefined || this.bytes + bytes <= this.maxBytes) return;
    for (const own of share.streams) {
      if (share.bytes <= this.maxBytes * ACCOUNT_SHARE || this.bytes + bytes <= this.maxBytes) return;
      if (own !== stream) this.entries.delete(own);
    }
  }

  private addToAccount({ account, bytes }: Entry, stream: string): void {
    const share = this.usageByAccount.get(account) ?? { bytes: 0, streams: new Set() };
    share.bytes += bytes;
    share.streams.add(stream);
    this.usageByAccount.set(account, share);
  }

  private removeFromAccount({ account, bytes }: Entry, stream: string): void {
    const share = this.usageByAccount.get(account);
    if (share === undefined) return;
    share.bytes -= bytes;
    share.streams.delete(stream);
    if (share.streams.size === 0) this.usageByAccount.delete(account);
  }
}

function measure({ state, derivedIds }: StreamState): number {
  return sizeOf(state) + derivedIds.byteLength;
}
