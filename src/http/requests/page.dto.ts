import { IsOptional, IsString, MaxLength } from 'class-validator';

import { IntegerQuery } from './validation.ts';

/** The query of a list. */
export class PageQueryDto {
  /** The maximum number of items in the page; the default is 50. */
  @IsOptional()
  @IntegerQuery(1, 200)
  limit?: number;

  /** The cursor from the `Link` header of the previous page. */
  @IsOptional()
  @IsString()
  @MaxLength(1_000)
  cursor?: string;
}
