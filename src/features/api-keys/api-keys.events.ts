import { defineEvent, type EventsOf } from '../../eventsourcing/event-store/event-definition.ts';
import type { Scope } from '../../kernel/context/caller.ts';

export const apiKeyEvents = {
  ApiKeyIssued: defineEvent<{
    account_id: string;
    key_id: string;
    name: string;
    /** The key's first characters. */
    prefix: string;
    /** The SHA-256 of the whole key, in hex. The key itself is never stored. */
    sha256: string;
    scopes: Scope[];
    expires_at: string | null;
  }>()(
    'ApiKeyIssued',
    ({ name, scopes, expires_at }) =>
      `Issued the API key "${name}" for ${scopes.join(', ')}, ${expires_at === null ? 'without an end' : `until ${expires_at}`}`,
  ),
  ApiKeyRevoked: defineEvent<{ account_id: string; key_id: string }>()('ApiKeyRevoked', ({ key_id }) => `Revoked the API key ${key_id}`),
  /** The key was refused from its expiry on; this event only records it. */
  ApiKeyExpired: defineEvent<{ account_id: string; key_id: string }>()('ApiKeyExpired', ({ key_id }) => `The API key ${key_id} expired`),
};

export type ApiKeyEvent = EventsOf<typeof apiKeyEvents>;
