import { type KeyCommand, keyRotationDecider, keyRotationStream, type RecordedRotation } from './keys.decider.ts';

const keys = { rotationId: 'r', fromKeyId: 'one', toKeyId: 'two' };
const data = { rotation_id: 'r', from_key_id: 'one', to_key_id: 'two' };
const decide = (type: KeyCommand['type'], recorded: RecordedRotation) =>
  keyRotationDecider.decide({ type, ...keys }, recorded, new Date(0));

describe('the record of a rotation of the master key', () => {
  it('has its beginning once and then its end once, with the ids of the keys alone', () => {
    const begun = decide('RecordBegin', 'nothing');
    expect(begun).toEqual([{ type: 'MasterKeyRotationBegun', data }]);
    const ended = decide('RecordEnd', 'begun');
    expect(ended).toEqual([{ type: 'MasterKeyRotated', data }]);
    const after = [...begun, ...ended].reduce(keyRotationDecider.evolve, keyRotationDecider.initialState());
    expect(after).toBe('ended');
    expect([decide('RecordBegin', 'begun'), decide('RecordBegin', after), decide('RecordEnd', after)]).toEqual([[], [], []]);
  });

  it('has no end before its beginning', () => {
    expect(decide('RecordEnd', keyRotationDecider.initialState())).toEqual([]);
    expect(keyRotationStream('r')).toBe('masterKeyRotation-r');
  });
});
