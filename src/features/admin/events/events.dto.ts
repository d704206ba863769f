import { IsIn, IsOptional, Matches } from 'class-validator';

import { EventsQueryDto, HistoryItem } from '../../history/index.ts';

export class BrowseEventsQueryDto extends EventsQueryDto {
  /** The stream whose events are listed, as `agent-<id>`; all streams if absent. */
  @IsOptional()
  @Matches(/^[a-zA-Z][a-zA-Z0-9]*-[\x21-\x7e]{1,200}$/, { message: 'must be the name of a stream' })
  stream?: string;

  /** The class of the events: `core` (the default) are those that decide; `log` are the output of containers. */
  @IsOptional()
  @IsIn(['core', 'log'])
  class?: 'core' | 'log';

  /** The position after which the events begin. */
  @IsOptional()
  @Matches(/^\d{20}$/, { message: 'must be a position' })
  after?: string;
}

/** An event of any account, or of none. */
export class BrowsedEventDto extends HistoryItem {
  stream: string;
  /** The value is null if the event belongs to no account. */
  account_id: string | null;
}
