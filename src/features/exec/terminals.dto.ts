import { IsOptional, IsString } from 'class-validator';

import { IntegerQuery, MaxLength } from '../../http/requests/validation.ts';
import { SIZE_MAX } from './terminal-connection.ts';

export class TerminalQueryDto {
  /** The number of columns; the default is 80. */
  @IsOptional()
  @IntegerQuery(1, SIZE_MAX)
  cols?: number;

  /** The number of rows; the default is 24. */
  @IsOptional()
  @IntegerQuery(1, SIZE_MAX)
  rows?: number;

  /** A ticket of `POST …/terminal/tickets`, in place of a credential in a header. */
  @IsOptional()
  @IsString()
  @MaxLength(100)
  ticket?: string;
}

export class TerminalTicketDto {
  /** The ticket, which is valid once. */
  ticket: string;
  expiresAt: string;
}
