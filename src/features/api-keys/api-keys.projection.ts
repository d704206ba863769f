import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';

import { Database } from '../../postgres/database/database.ts';
import { entityOf, newestFirst } from '../../postgres/database/entities.ts';
import { idOf, type StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import { type Projection, tableOf } from '../../eventsourcing/projections/projection.ts';
import { issuedKey } from './api-keys.decider.ts';
import type { ApiKeyEvent } from './api-keys.events.ts';
import { ListApiKeys, ListEndedApiKeys } from './api-keys.queries.ts';
import { type ApiKeyRow, apiKeysTable, issuedKeyRow, apiKeyUsesTable } from './api-keys.table.ts';

/** Every issued key, including revoked ones. */
export const apiKeysProjection: Projection<typeof apiKeysTable> = {
  name: 'api_keys',
  version: 2,
  filter: { eventClass: 'core', categories: ['apiKey'] },
  table: apiKeysTable,
  keys: (event) => [idOf(event.stream)],
  project(stored: StoredEvent, rows) {
    const event = stored as unknown as ApiKeyEvent;
    const key_id = idOf(stored.stream);
    if (event.type === 'ApiKeyIssued') return rows.set(key_id, issuedKeyRow(issuedKey(event.data), stored.at));
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

const useRows = entityOf('api_key_uses', apiKeyUsesTable);
const keyRows = entityOf(tableOf(apiKeysProjection), apiKeysTable, { use: useRows });

@QueryHandler(ListApiKeys)
export class ListApiKeysHandler implements IQueryHandler<ListApiKeys> {
  constructor(private readonly database: Database) {}

  execute({ accountId, ...page }: ListApiKeys): Promise<ApiKeyRow[]> {
    const query = this.database.dataSource
      .getRepository(keyRows)
      .createQueryBuilder('key')
      .leftJoinAndSelect('key.use', 'use')
      .where('key.account_id = :accountId', { accountId });
    return newestFirst(query, ['key.created_at', 'key.key_id'], page).getMany();
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
