import { IsOptional, IsString, MaxLength } from 'class-validator';

import { IntegerQuery } from './validation.ts';

/** The query of a list. */
export class PageQuery {
  /** How many items the page may have, 50 where absent. */
  @IsOptional()
  @IntegerQuery(1, 200)
  limit?: number;

  /** From the `Link` header of the page before. */
  @IsOptional()
  @IsString()
  @MaxLength(1_000)
  cursor?: string;
}
