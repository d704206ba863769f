import { IsOptional, Matches } from 'class-validator';

import { EventsQueryDto } from '../../history/index.ts';

export class ComputerHistoryQueryDto extends EventsQueryDto {
  /** Selects events after this position in the log, as in `X-Event-Position`. */
  @IsOptional()
  @Matches(/^\d{1,60}$/, { message: 'must be a position' })
  after?: string;
}
