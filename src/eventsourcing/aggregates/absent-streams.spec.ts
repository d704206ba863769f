import { AbsentStreams } from './absent-streams.ts';

describe('Streams that are known not to exist', () => {
  it('are remembered, and those that strangers requested evict no others', () => {
    const absences = new AbsentStreams();
    absences.add('agent-known', '1', false);
    absences.add('agent-of-a-stranger', '2', true);
    expect([absences.get('agent-known'), absences.get('agent-of-a-stranger')]).toEqual(['1', '2']);
    for (let n = 0; n < 20_000; n += 1) absences.add(`agent-${n}`, '3', true);
    expect([absences.get('agent-known'), absences.get('agent-of-a-stranger'), absences.get('agent-19999')]).toEqual(['1', undefined, '3']);
  });

  it('are evicted, whoever requested them', () => {
    const absences = new AbsentStreams();
    absences.add('agent-a', '1', false);
    absences.add('agent-a', '1', true);
    absences.evict('agent-a');
    expect(absences.get('agent-a')).toBeUndefined();
  });
});
