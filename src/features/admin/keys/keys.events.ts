import { defineEvent, type EventsOf } from '../../../eventsourcing/event-store/event-definition.ts';

/** The events of rotations of the master key. They contain ids of keys, which are hashes, and no key. */
export const keyEvents = {
  MasterKeyRotationBegun: defineEvent<{ rotation_id: string; from_key_id: string; to_key_id: string }>()(
    'MasterKeyRotationBegun',
    ({ from_key_id, to_key_id }) => `Began to replace the master key ${from_key_id} by ${to_key_id}`,
  ),
  MasterKeyRotated: defineEvent<{ rotation_id: string; from_key_id: string; to_key_id: string }>()(
    'MasterKeyRotated',
    ({ from_key_id, to_key_id }) => `Replaced the master key ${from_key_id} by ${to_key_id}: every data key is wrapped by it`,
  ),
};

export type KeyEvent = EventsOf<typeof keyEvents>;
