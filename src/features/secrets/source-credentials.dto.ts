import { Allow, IsString } from 'class-validator';

import { MaxLength } from '../../http/requests/validation.ts';
import type { SourceKind } from './secrets.events.ts';
import type { SourceCredentialWithUse } from './account-source-credentials.service.ts';

const PASSWORD_MAX = 8_192;

export class SourcePathDto {
  /** The kind of the host: `registry` or `git`. */
  @Allow()
  kind: string;

  /** The host, with a port if it has one. */
  @Allow()
  host: string;
}

export class StoreSourceCredentialDto {
  @IsString()
  username: string;

  /** The password or token. No response contains it. */
  @IsString()
  @MaxLength(PASSWORD_MAX)
  password: string;
}

export class SourceCredentialDto {
  /** The host, with a port if it has one. */
  host: string;
  kind: SourceKind;
  username: string;
  created_at: string;
  /** The time of the last pull or clone with it, to the minute; null if there was none. */
  last_used_at: string | null;
}

export function toSourceCredentialDto({ host, kind, username, createdAt, lastUsedAt }: SourceCredentialWithUse): SourceCredentialDto {
  return { host, kind, username, created_at: createdAt, last_used_at: lastUsedAt?.toISOString() ?? null };
}
