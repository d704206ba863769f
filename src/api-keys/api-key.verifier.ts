import { Injectable } from '@nestjs/common';

import { Database } from '../platform/database/database.ts';
import type { Caller, Scope } from '../platform/http/caller.ts';
import { ReadModels } from '../platform/projections/projection.ts';
import { apiKeysProjection } from './api-keys.projection.ts';
import { isWellFormed, sha256Of } from './raw-key.ts';

interface Found {
  key_id: string;
  account_id: string;
  name: string;
  scopes: Scope[];
  use_is_old: boolean;
}

/** Tells who holds a key. Nothing is kept between requests, so a revoked key is refused at once, by every replica. */
@Injectable()
export class ApiKeyVerifier {
  constructor(
    private readonly database: Database,
    private readonly readModels: ReadModels,
  ) {}

  /** Null where it is mistyped (no look-up is made), unknown, revoked or expired. Its use is noted once a minute. */
  async verify(rawKey: string): Promise<Caller | null> {
    if (!isWellFormed(rawKey)) return null;
    const [found] = await this.database.query<Found & Record<string, unknown>>(
      `select k.key_id, k.account_id, k.name, k.scopes, coalesce(u.last_used_at < now() - interval '1 minute', true) as use_is_old
         from api_keys k left join api_key_uses u using (key_id)
        where k.sha256 = $1 and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())`,
      [sha256Of(rawKey)],
    );
    if (found === undefined) {
      // While keys are being read from the log again, nobody can say that this is none.
      await this.readModels.whole(apiKeysProjection.name);
      return null;
    }
    if (found.use_is_old) await this.noteUse(found.key_id);
    return {
      kind: 'api_key',
      id: found.key_id,
      name: found.name,
      accountId: found.account_id,
      role: 'member',
      scopes: new Set(found.scopes),
    };
  }

  private async noteUse(keyId: string): Promise<void> {
    await this.database.query(
      `insert into api_key_uses as u (key_id, last_used_at) values ($1, now())
       on conflict (key_id) do update set last_used_at = excluded.last_used_at where u.last_used_at < now() - interval '1 minute'`,
      [keyId],
    );
  }
}
