import type { Sealed } from '../../crypto/keyring.ts';
import { defineEvent, type EventsOf } from '../../eventsourcing/event-store/event-definition.ts';

/** The kinds of hosts that sources of agents come from. */
export const sourceKinds = ['registry', 'git'] as const;
export type SourceKind = (typeof sourceKinds)[number];

/** The events of an account's secrets and source credentials, which are on one stream. What is secret is encrypted with the account's data key. */
export const secretEvents = {
  SecretStored: defineEvent<{ account_id: string; name: string; value: Sealed; mask: string; stored_at: string }>()(
    'SecretStored',
    ({ name }) => `Stored the secret ${name}`,
  ),
  SecretRemoved: defineEvent<{ account_id: string; name: string }>()('SecretRemoved', ({ name }) => `Removed the secret ${name}`),
  SourceCredentialStored: defineEvent<{
    account_id: string;
    kind: SourceKind;
    host: string;
    username: string;
    password: Sealed;
    stored_at: string;
  }>()('SourceCredentialStored', ({ kind, host }) => `Stored a credential for the ${kind} host ${host}`),
  SourceCredentialRemoved: defineEvent<{ account_id: string; kind: SourceKind; host: string }>()(
    'SourceCredentialRemoved',
    ({ kind, host }) => `Removed the credential for the ${kind} host ${host}`,
  ),
};

export type SecretEvent = EventsOf<typeof secretEvents>;
