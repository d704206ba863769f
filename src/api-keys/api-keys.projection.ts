import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';

import { Database } from '../platform/database/database.ts';
import { idOf, type StoredEvent } from '../platform/event-store/event-store.ts';
import type { Scope } from '../platform/context/caller.ts';
import { LatestRows } from '../platform/projections/tables/latest-rows.ts';
import { type Projection, tableOf } from '../platform/projections/projection.ts';
import { Refusal } from '../platform/errors/refusal.ts';
import { ApiKeyRow, ApiKeyUseRow } from './api-keys.entity.ts';
import type { ApiKeyEvent } from './api-keys.events.ts';
import { GetWrittenApiKey, ListApiKeys, ListEndedApiKeys } from './api-keys.queries.ts';

export interface ApiKeyColumns {
  key_id: string;
  account_id: string;
  name: string;
  prefix: string;
  sha256: string;
  scopes: Scope[];
  expires_at: string | null;
  revoked_at: string | null;
  /** The time at which the expiry was recorded. */
  expired_at: string | null;
  created_at: string;
}

/** Every issued key, including revoked ones. */
export const apiKeysProjection: Projection<ApiKeyColumns> = {
  name: 'api_keys',
  version: 2,
  filter: { eventClass: 'core', categories: ['apiKey'] },
  table: {
    name: 'api_keys',
    key: 'key_id',
    columns: {
      key_id: 'text collate "C" not null',
      account_id: 'text collate "C" not null',
      name: 'text not null',
      prefix: 'text not null',
      sha256: 'text collate "C" not null',
      scopes: 'json not null',
      expires_at: 'timestamptz(3)',
      revoked_at: 'timestamptz(3)',
      expired_at: 'timestamptz(3)',
      created_at: 'timestamptz(3) not null',
    },
    indexes: {
      by_hash: '(sha256)',
      by_account: '(account_id, created_at desc, key_id desc)',
      ending: '(expires_at) where expires_at is not null and revoked_at is null and expired_at is null',
    },
  },
  keys: (event) => [idOf(event.stream)],
  project(stored: StoredEvent, rows) {
    const event = stored as unknown as ApiKeyEvent;
    const key_id = idOf(stored.stream);
    if (event.type === 'ApiKeyIssued') {
      const { account_id, name, prefix, sha256, scopes, expires_at } = event.data;
      const key = { key_id, account_id, name, prefix, sha256, scopes, expires_at };
      rows.set(key_id, { ...key, revoked_at: null, expired_at: null, created_at: stored.at });
      return;
    }
    const row = rows.get(key_id);
    if (row === undefined) return;
    switch (event.type) {
      case 'ApiKeyRevoked':
        return rows.set(key_id, { ...row, revoked_at: stored.at });
      case 'ApiKeyExpired':
        return rows.set(key_id, { ...row, expired_at: stored.at });
      default:
        event satisfies never;
    }
  },
};

@QueryHandler(GetWrittenApiKey)
export class GetWrittenApiKeyHandler implements IQueryHandler<GetWrittenApiKey> {
  constructor(
    private readonly database: Database,
    private readonly latest: LatestRows,
  ) {}

  async execute({ accountId, keyId }: GetWrittenApiKey): Promise<ApiKeyRow> {
    const [{ row }, use] = await Promise.all([
      this.latest.find(apiKeysProjection, `apiKey-${keyId}`),
      this.database.dataSource.getRepository(ApiKeyUseRow).findOneBy({ key_id: keyId }),
    ]);
    if (row === undefined || row.account_id !== accountId) throw new Refusal('key_not_found', 'There is no such API key.');
    const { expires_at, revoked_at, created_at } = row;
    return { ...row, use, expires_at: dateOf(expires_at), revoked_at: dateOf(revoked_at), created_at: new Date(created_at) };
  }
}

function dateOf(time: string | null): Date | null {
  return time === null ? null : new Date(time);
}

@QueryHandler(ListApiKeys)
export class ListApiKeysHandler implements IQueryHandler<ListApiKeys> {
  constructor(private readonly database: Database) {}

  execute({ accountId, limit, after }: ListApiKeys): Promise<ApiKeyRow[]> {
    const query = this.database.dataSource
      .getRepository(ApiKeyRow)
      .createQueryBuilder('key')
      .leftJoinAndSelect('key.use', 'use')
      .where('key.account_id = :accountId', { accountId })
      .orderBy({ 'key.created_at': 'DESC', 'key.key_id': 'DESC' })
      .limit(limit);
    if (after !== null) {
      const [createdAt, keyId] = after;
      query.andWhere('(key.created_at, key.key_id) < (:createdAt::timestamptz, :keyId)', { createdAt, keyId });
    }
    return query.getMany();
  }
}

@QueryHandler(ListEndedApiKeys)
export class ListEndedApiKeysHandler implements IQueryHandler<ListEndedApiKeys> {
  constructor(private readonly database: Database) {}

  execute(): Promise<{ key: string; account: string }[]> {
    return this.database.query<{ key: string; account: string }>(
      `select key_id as key, account_id as account from ${tableOf(apiKeysProjection)} where expires_at <= now() and revoked_at is null and expired_at is null`,
    );
  }
}
