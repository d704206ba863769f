import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';

import type { AgentEvent } from '../../agents/index.ts';
import { Database } from '../../../postgres/database/database.ts';
import { tableOf, type Projection } from '../../../eventsourcing/projections/projection.ts';
import { AccountHasImage } from './account-images.queries.ts';
import { accountImagesTable } from './account-images.table.ts';

type ImageResolved = Extract<AgentEvent, { type: 'ImageResolved' }>;

/**
 * Lists the images that an account's deployments have pulled, built or used from a template. The account may use these again without
 * their registry.
 */
export const accountImagesProjection: Projection<typeof accountImagesTable> = {
  name: 'account_images',
  version: 1,
  filter: { eventClass: 'core', categories: ['agent'], types: ['ImageResolved'] },
  table: accountImagesTable,
  keys: (event) => [idOf(event.metadata.account_id, (event as unknown as ImageResolved).data.image)],
  partition: (event) => event.metadata.account_id ?? '',
  project(event, rows) {
    const id = idOf(event.metadata.account_id, (event as unknown as ImageResolved).data.image);
    rows.set(id, { id, resolved_at: event.at });
  },
};

function idOf(accountId: string | null, image: string): string {
  return `${accountId ?? ''}/${image}`;
}

@QueryHandler(AccountHasImage)
export class AccountHasImageHandler implements IQueryHandler<AccountHasImage> {
  constructor(private readonly database: Database) {}

  async execute({ accountId, image }: AccountHasImage): Promise<boolean> {
    const rows = await this.database.query(`select from ${tableOf(accountImagesProjection)} where id = $1`, [idOf(accountId, image)]);
    return rows.length > 0;
  }
}
