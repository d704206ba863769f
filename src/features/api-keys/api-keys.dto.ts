import { ArrayNotEmpty, ArrayUnique, IsArray, IsIn, IsInt, IsOptional, IsString, Max, Min } from 'class-validator';

import { type Scope, scopes } from '../../kernel/context/caller.ts';
import { Length } from '../../http/requests/validation.ts';
import type { ApiKeyRow } from './api-keys.table.ts';

export class CreateApiKeyDto {
  /** The display name of the key. */
  @IsString()
  @Length(1, 100)
  name: string;

  /** The scopes of the key; all scopes if absent. */
  @IsOptional()
  @IsArray()
  @ArrayNotEmpty()
  @ArrayUnique()
  @IsIn(scopes, { each: true })
  scopes?: Scope[] | null;

  /** The lifetime of the key in days; null or absent means that it never expires. */
  @IsOptional()
  @IsInt()
  @Min(1)
  @Max(3_650)
  expires_in_days?: number | null;
}

export class ApiKeyDto {
  id: string;
  name: string;
  /** The first 11 characters of the key. */
  key_prefix: string;
  scopes: Scope[];
  /** The value is false if the key was revoked or has expired. */
  is_active: boolean;
  /** The time of the last use, ISO 8601 UTC, to the minute; null if the key was never used. */
  last_used_at: string | null;
  /** The time at which the key expires, ISO 8601 UTC; null if it never does. */
  expires_at: string | null;
  /** The time at which the key was issued, ISO 8601 UTC. */
  created_at: string;
}

export class CreatedApiKeyDto extends ApiKeyDto {
  /** The key itself, which is returned only here. */
  raw_key: string;
}

export function toCreatedApiKeyDto(row: ApiKeyRow, now: Date, rawKey: string): CreatedApiKeyDto {
  return Object.assign(toApiKeyDto(row, now), { raw_key: rawKey });
}

export function toApiKeyDto(row: ApiKeyRow, now: Date): ApiKeyDto {
  return {
    id: row.key_id,
    name: row.name,
    key_prefix: row.prefix,
    scopes: row.scopes,
    is_active: row.revoked_at === null && (row.expires_at === null || row.expires_at > now),
    last_used_at: row.use?.last_used_at.toISOString() ?? null,
    expires_at: row.expires_at?.toISOString() ?? null,
    created_at: row.created_at.toISOString(),
  };
}
