import { Injectable } from '@nestjs/common';
import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';

import { Database } from '../../../postgres/database/database.ts';
import { type ImageSweepResult, LastImageSweep } from './image-sweep.queries.ts';

/** Stores the result of the last sweep of unused images. */
@Injectable()
export class ImageSweepRecords {
  constructor(private readonly database: Database) {}

  async record({ removed, removed_bytes, refused }: Omit<ImageSweepResult, 'ended_at'>): Promise<void> {
    await this.database.query(
      `insert into image_sweeps (ended_at, removed, removed_bytes, refused) values (now(), $1, $2, $3)
        on conflict (is_last) do update
          set (ended_at, removed, removed_bytes, refused) = (excluded.ended_at, excluded.removed, excluded.removed_bytes, excluded.refused)`,
      [removed, removed_bytes, refused],
    );
  }
}

@QueryHandler(LastImageSweep)
export class LastImageSweepHandler implements IQueryHandler<LastImageSweep> {
  constructor(private readonly database: Database) {}

  async execute(): Promise<ImageSweepResult | null> {
    const [row] = await this.database.query<Omit<ImageSweepResult, 'removed_bytes'> & { removed_bytes: string }>(
      'select ended_at, removed, removed_bytes, refused from image_sweeps',
    );
    return row === undefined ? null : { ...row, removed_bytes: Number(row.removed_bytes) };
  }
}
