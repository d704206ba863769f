/*
 * Verifies API keys at the beginning of a request.
 *
 * It owns a cache of the keys in use, by their hashes, and the times of their use. It does not own the life of a key (api-keys.decider.ts),
 * or the end of requests that run when a key ends (`ApiKeyEnds`).
 *
 * Invariants:
 * K1. A revoked key is refused on every replica as soon as its event is in the log. A request has read every event that was in the log when
 *     it arrived; if it has not (`isCurrent` is false), the cache is not used.
 * K2. An event of a key evicts the key. A key that was read before a concurrent event is not cached, and a gap in the log evicts all keys.
 * K3. A key is called unknown only if the read model has all events up to the last change of a key, so that a new key is accepted at once.
 * K4. The key itself is never stored or compared: only its SHA-256 is.
 */

import { Injectable } from '@nestjs/common';
import { LRUCache } from 'lru-cache';

import { Clock } from '../../kernel/clock.ts';
import { Database } from '../../postgres/database/database.ts';
import { Aggregates } from '../../eventsourcing/aggregates/aggregates.ts';
import { categoryOf, idOf, START, type Position, type StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import { LogFollower } from '../../eventsourcing/log/log-follower.ts';
import type { Caller } from '../../kernel/context/caller.ts';
import { ReadModels, tableOf } from '../../eventsourcing/projections/projection.ts';
import { apiKeyDecider } from './api-keys.decider.ts';
import { apiKeysProjection } from './api-keys.projection.ts';
import type { ApiKeyRow } from './api-keys.table.ts';
import { isWellFormed, sha256Of } from './raw-key.ts';

/** The most keys in the cache. Each takes at most 1 kB, since names and scopes are bounded. */
const CACHED_KEYS_MAX = 10_000;
/** The use of a key is recorded at most once in this time, in ms. */
const USE_RECORDED_EVERY_MS = 60_000;

const ISSUED = `select key_id, account_id, name, scopes from ${tableOf(apiKeysProjection)} where sha256 = $1`;

type IssuedRow = Pick<ApiKeyRow, 'key_id' | 'account_id' | 'name' | 'scopes'>;

/** A key that is not revoked. */
interface CachedKey {
  caller: Caller & { expiresAt: number };
  /** The time at which this process last recorded its use, ms since 1970. */
  useRecordedAt: number;
}

/**
 * Verifies keys. Keys in use are cached by their hashes until an event changes them, so that a request costs no statement.
 */
@Injectable()
export class ApiKeysVerifier {
  /** Maps the id of each key in `cache` to its SHA-256. */
  private readonly hashesById = new Map<string, string>();
  /** The cached keys by their SHA-256. */
  private readonly cache = new LRUCache<string, CachedKey>({
    max: CACHED_KEYS_MAX,
    dispose: ({ caller }) => this.hashesById.delete(caller.id),
  });
  /** The position of the last event of a key that was read, or the position of the last gap. */
  private lastChange: Position = START;

  constructor(
    private readonly database: Database,
    private readonly readModels: ReadModels,
    private readonly aggregates: Aggregates,
    private readonly clock: Clock,
    follower: LogFollower,
  ) {
    follower.listen({ onEvents: (events) => events.forEach((event) => this.onEvent(event)), onGap: (from) => this.evictAll(from) });
  }

  /**
   * Returns the key's caller; null if the key is mistyped (no lookup is made), unknown, revoked or expired. Its use is recorded once a
   * minute. `isCurrent` is true if this process has read everything that was in the log when the request arrived; otherwise the cache is
   * not used.
   */
  async verify(rawKey: string, isCurrent: boolean): Promise<Caller | null> {
    if (!isWellFormed(rawKey)) return null;
    const hash = sha256Of(rawKey);
    const key = (isCurrent ? this.cache.get(hash) : undefined) ?? (await this.find(hash));
    const now = this.clock.now().getTime();
    if (key === null || key.caller.expiresAt <= now) return null;
    if (now - key.useRecordedAt >= USE_RECORDED_EVERY_MS) {
      key.useRecordedAt = now;
      await this.recordUse(key.caller.id);
    }
    return key.caller;
  }

  /** Finds the key in the read model, and reads from its stream whether it is revoked. */
  private async find(hash: string): Promise<CachedKey | null> {
    const { lastChange } = this;
    const row = (await this.findIssued(hash)) ?? (await this.findIssuedWhenCurrent(hash, lastChange));
    if (row === undefined) return null;
    const { state } = await this.aggregates.load(`apiKey-${row.key_id}`, apiKeyDecider);
    if (state === null || state.revoked) return null;
    const { key_id: id, name, account_id: accountId, scopes } = row;
    const expiresAt = state.expiresAt === null ? Infinity : Date.parse(state.expiresAt);
    const key: CachedKey = {
      caller: { kind: 'api_key', id, name, accountId, role: 'member', scopes: new Set(scopes), expiresAt },
      useRecordedAt: 0,
    };
    // K2
    if (lastChange === this.lastChange) {
      this.cache.set(hash, key);
      this.hashesById.set(id, hash);
    }
    return key;
  }

  private async findIssued(hash: string): Promise<IssuedRow | undefined> {
    const [row] = await this.database.query<IssuedRow>(ISSUED, [hash]);
    return row;
  }

  /**
   * K3: looks the key up once the read model is current. Throws `read_model_behind` while it lacks events or is being rebuilt, because the key
   * may be valid although it is not found.
   */
  private async findIssuedWhenCurrent(hash: string, lastChange: Position): Promise<IssuedRow | undefined> {
    await this.readModels.waitFor(apiKeysProjection.name, lastChange);
    await this.readModels.waitUntilFilled(apiKeysProjection.name);
    return this.findIssued(hash);
  }

  private onEvent({ stream, position }: StoredEvent): void {
    if (categoryOf(stream) !== 'apiKey') return;
    this.lastChange = position;
    this.evict(idOf(stream));
  }

  private evict(keyId: string): void {
    const hash = this.hashesById.get(keyId);
    if (hash !== undefined) this.cache.delete(hash);
  }

  private evictAll(from: Position): void {
    this.cache.clear();
    this.lastChange = from;
  }

  private async recordUse(keyId: string): Promise<void> {
    await this.database.query(
      `insert into api_key_uses as u (key_id, last_used_at) values ($1, now())
       on conflict (key_id) do update set last_used_at = excluded.last_used_at where u.last_used_at < now() - interval '1 minute'`,
      [keyId],
    );
  }
}
