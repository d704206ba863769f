import type { Sealed } from '../platform/crypto/sealed.ts';
import { defineEvent, type EventsOf } from '../platform/event-store/event-definition.ts';

/** On the agent's own stream. */
export const environmentEvents = {
  VariableSet: defineEvent<{
    key: string;
    is_secret: boolean;
    /** Null where it is secret. */
    value: string | null;
    /** The value of a secret, under the agent's data key; else null. */
    sealed: Sealed | null;
    /** What people are shown of a secret; else null. */
    mask: string | null;
    set_at: string;
  }>()('VariableSet', ({ key, is_secret }) => `Set the ${is_secret ? 'secret' : 'variable'} ${key}`),
  VariableRemoved: defineEvent<{ key: string }>()('VariableRemoved', ({ key }) => `Removed the variable ${key}`),
};

export type EnvironmentEvent = EventsOf<typeof environmentEvents>;
