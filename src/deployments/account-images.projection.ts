import { Query, QueryHandler, type IQueryHandler } from '@nestjs/cqrs';

import type { AgentEvent } from '../agents/index.ts';
import { Database } from '../platform/database/database.ts';
import { tableOf, type Projection } from '../platform/projections/projection.ts';

interface AccountImageColumns {
  /** The account and the image. */
  id: string;
  resolved_at: string;
}

type ImageResolved = Extract<AgentEvent, { type: 'ImageResolved' }>;

/** The images that an account's deployments pulled, built or were given by a template: those that it may use again without its registry. */
export const accountImagesProjection: Projection<AccountImageColumns> = {
  name: 'account_images',
  version: 1,
  filter: { eventClass: 'core', categories: ['agent'], types: ['ImageResolved'] },
  table: {
    name: 'account_images',
    key: 'id',
    columns: { id: 'text collate "C" not null', resolved_at: 'timestamptz(3) not null' },
    indexes: {},
  },
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

/** Whether the account had the image, a digest or an id, in one of its deployments. The newest deployments may be missing. */
export class AccountHasImage extends Query<boolean> {
  constructor(
    readonly accountId: string,
    readonly image: string,
  ) {
    super();
  }
}

@QueryHandler(AccountHasImage)
export class AccountHasImageHandler implements IQueryHandler<AccountHasImage> {
  constructor(private readonly database: Database) {}

  async execute({ accountId, image }: AccountHasImage): Promise<boolean> {
    const rows = await this.database.query(`select from ${tableOf(accountImagesProjection)} where id = $1`, [idOf(accountId, image)]);
    return rows.length > 0;
  }
}
