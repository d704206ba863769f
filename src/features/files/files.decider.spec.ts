import fc from 'fast-check';

import { NOON } from '../../../test/support/decider-spec.ts';
import { CHANGES_MAX, filesDecider, LATEST_MAX, type FileChangesState, type FileCommand } from './files.decider.ts';

const { decide, evolve } = filesDecider;
const paths = { v: 1 as const, key: 1, iv: 'iv', ct: 'ct' };
const at = (seconds: number) => new Date(NOON.getTime() + seconds * 1_000);
const startAt = (changeId: string, seconds: number): FileCommand => ({
  type: 'StartFileChange',
  agentId: 'agent',
  changeId,
  change: 'move',
  paths,
  endsBy: at(seconds + 70).toISOString(),
});
const moved = (changeId: string): FileCommand => ({ type: 'EndFileChange', changeId, outcome: { change: 'move' } });

function after(state: FileChangesState, asked: FileCommand, seconds = 0): FileChangesState {
  return decide(asked, state, at(seconds)).reduce(evolve, state);
}

const full = Array.from({ length: CHANGES_MAX }, (_, n) => `change ${n}`).reduce<FileChangesState>(
  (state, id) => after(state, startAt(id, 0)),
  null,
);

describe('the changes of an agent’s files', () => {
  it('are refused while 32 run, until one has ended', () => {
    expect(() => decide(startAt('one more', 0), full, NOON)).toThrow(expect.objectContaining({ code: 'rate_limited' }));
    const ended = after(full, moved('change 3'));
    expect(decide(startAt('one more', 0), ended, NOON)).toMatchObject([{ type: 'FileChangeStarted', data: { change_id: 'one more' } }]);
  });

  it('no longer count after their deadline, and their outcome is recorded as unknown', () => {
    const events = decide(startAt('one more', 71), full, at(71));
    expect(events.map(({ type }) => type)).toEqual([...Array<string>(CHANGES_MAX).fill('FileChangeFailed'), 'FileChangeStarted']);
    expect(events[0]).toEqual({ type: 'FileChangeFailed', data: { agent_id: 'agent', change_id: 'change 0', failure: 'unknown' } });
  });

  it('are not made again under the same id, unless they were refused', () => {
    const started = after(null, startAt('the same', 0));
    const failed = (failure: 'canceled' | 'refused') => after(started, { type: 'FailFileChange', changeId: 'the same', failure });
    for (const state of [started, after(started, moved('the same')), failed('canceled')])
      expect(() => decide(startAt('the same', 0), state, at(500))).toThrow(expect.objectContaining({ code: 'invalid_state' }));
    expect(decide(startAt('the same', 0), failed('refused'), NOON)).toHaveLength(1);
  });

  it('end once, with the fact that the change left', () => {
    expect(decide(moved('change 3'), full, NOON)).toEqual([{ type: 'FileMoved', data: { agent_id: 'agent', change_id: 'change 3' } }]);
    expect(decide(moved('change 3'), after(full, moved('change 3')), NOON)).toEqual([]);
    expect(decide(moved('never begun'), null, NOON)).toEqual([]);
  });

  it('keep a bounded state, for any sequence of events', () => {
    const acts = fc.array(fc.tuple(fc.constantFrom('start', 'end', 'fail', 'download'), fc.nat(60), fc.nat(100)), { maxLength: 300 });
    fc.assert(
      fc.property(acts, (steps) => {
        let state: FileChangesState = null;
        let seconds = 0;
        steps.forEach(([act, id, wait], n) => {
          seconds += wait;
          const changeId = state?.running[id % Math.max(1, state.running.length)]?.id ?? 'none';
          const asked: Record<typeof act, FileCommand> = {
            start: startAt(`change ${n}`, seconds),
            end: moved(changeId),
            fail: { type: 'FailFileChange', changeId, failure: 'interrupted' },
            download: { type: 'RecordDownload', agentId: 'agent', paths, size: null },
          };
          try {
            for (const event of decide(asked[act], state, at(seconds))) state = evolve(state, event);
          } catch (error) {
            expect(error).toMatchObject({ code: 'rate_limited' });
          }
          expect(state?.running.length ?? 0).toBeLessThanOrEqual(CHANGES_MAX);
          expect(state?.latest.length ?? 0).toBeLessThanOrEqual(LATEST_MAX);
        });
      }),
    );
  });
});
