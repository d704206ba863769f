import { IsIn, IsOptional, Matches } from 'class-validator';

import { EventsQuery, HistoryItem } from '../history/index.ts';

export class BrowseQuery extends EventsQuery {
  /** Only events of this stream, as `agent-<id>`. */
  @IsOptional()
  @Matches(/^[a-zA-Z][a-zA-Z0-9]*-[\x21-\x7e]{1,200}$/, { message: 'must be the name of a stream' })
  stream?: string;

  /** `core` (where absent) is what decides; `log` is the output of containers. */
  @IsOptional()
  @IsIn(['core', 'log'])
  class?: 'core' | 'log';

  /** Only events after this position. */
  @IsOptional()
  @Matches(/^\d{20}$/, { message: 'must be a position' })
  after?: string;
}

/** An event of anybody's. */
export class BrowsedEvent extends HistoryItem {
  stream: string;
  /** Null: of nobody's account. */
  account_id: string | null;
}
