import type { Sealed } from '../../crypto/keyring.ts';
import { defineEvent, type EventsOf } from '../../eventsourcing/event-store/event-definition.ts';

/** The events of an agent's variables, which are on the agent's own stream. */
export const environmentEvents = {
  VariableSet: defineEvent<{
    key: string;
    is_secret: boolean;
    /** The value in clear; null if it is secret. */
    value: string | null;
    /** The value of a secret, encrypted with the agent's data key; otherwise null. */
    sealed: Sealed | null;
    /** The mask of a secret; otherwise null. */
    mask: string | null;
    set_at: string;
  }>()('VariableSet', ({ key, is_secret }) => `Set the ${is_secret ? 'secret' : 'variable'} ${key}`),
  /** The variable takes its value from a secret of the account. */
  VariableLinked: defineEvent<{ account_id: string; key: string; secret: string; set_at: string }>()(
    'VariableLinked',
    ({ key, secret }) => `Set the variable ${key} to the value of the secret ${secret}`,
  ),
  VariableRemoved: defineEvent<{ key: string }>()('VariableRemoved', ({ key }) => `Removed the variable ${key}`),
};

export type EnvironmentEvent = EventsOf<typeof environmentEvents>;
