import { IsIn, IsISO8601, IsOptional, IsString, MaxLength } from 'class-validator';
import { IntegerQuery } from '../../http/requests/validation.ts';
import type { LogLevel } from './output/logs.events.ts';

export class LogQueryDto {
  /** The largest number of entries; default 100. */
  @IsOptional()
  @IntegerQuery(1, 1000)
  limit?: number;

  @IsOptional()
  @IsIn(['info', 'warning', 'error'])
  level?: LogLevel;

  @IsOptional()
  @IsISO8601({ strict: true })
  since?: string;

  @IsOptional()
  @IsISO8601({ strict: true })
  until?: string;

  /** A text that the message or the fields contain. */
  @IsOptional()
  @IsString()
  @MaxLength(200)
  q?: string;

  @IsOptional()
  @IsString()
  @MaxLength(500)
  cursor?: string;
}
