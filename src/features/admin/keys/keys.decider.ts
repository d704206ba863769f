import type { Decider } from '../../../eventsourcing/event-store/event-definition.ts';
import type { KeyEvent } from './keys.events.ts';

/** The last event in the stream of one rotation of the master key. The rotation itself is a row, since no event may contain a key. */
export type RecordedRotation = 'nothing' | 'begun' | 'ended';

interface Keys {
  rotationId: string;
  fromKeyId: string;
  toKeyId: string;
}

export type KeyCommand = ({ type: 'RecordBegin' } & Keys) | ({ type: 'RecordEnd' } & Keys);

export const keyRotationDecider: Decider<RecordedRotation, KeyCommand, KeyEvent> = {
  initialState: () => 'nothing',
  decide({ type, rotationId: rotation_id, fromKeyId: from_key_id, toKeyId: to_key_id }, recorded) {
    const data = { rotation_id, from_key_id, to_key_id };
    switch (type) {
      case 'RecordBegin':
        return recorded === 'nothing' ? [{ type: 'MasterKeyRotationBegun', data }] : [];
      case 'RecordEnd':
        return recorded === 'begun' ? [{ type: 'MasterKeyRotated', data }] : [];
    }
  },
  evolve(recorded, event) {
    switch (event.type) {
      case 'MasterKeyRotationBegun':
        return 'begun';
      case 'MasterKeyRotated':
        return 'ended';
      default:
        event satisfies never;
        return recorded;
    }
  },
};

export function keyRotationStream(rotationId: string): string {
  return `masterKeyRotation-${rotationId}`;
}
