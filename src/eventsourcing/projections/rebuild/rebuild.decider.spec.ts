import { rebuildDecider } from './rebuild.decider.ts';
import type { RebuildEvent } from './rebuild.events.ts';

const now = new Date('2026-01-01T00:00:00Z');
const after = (...events: RebuildEvent[]) => events.reduce(rebuildDecider.evolve, rebuildDecider.initialState());
const requested: RebuildEvent = { type: 'ProjectionRebuildRequested', data: { rebuild_id: 'r1' } };
const rebuilt: RebuildEvent = { type: 'ProjectionRebuilt', data: { rebuild_id: 'r1' } };
const canceled: RebuildEvent = { type: 'ProjectionRebuildCanceled', data: { rebuild_id: 'r1' } };
const failed: RebuildEvent = { type: 'ProjectionRebuildFailed', data: { rebuild_id: 'r1', reason: 'disk full' } };
const verified: RebuildEvent = { type: 'ProjectionVerified', data: { position: '7', equal: false, differences: 2 } };

describe('a rebuild of a read model', () => {
  it('runs once at a time, and can be ordered again when it is over', () => {
    const order = { type: 'RequestRebuild' as const, rebuildId: 'r1' };
    expect(rebuildDecider.decide(order, after(), now)).toEqual([requested]);
    expect(rebuildDecider.decide({ ...order, rebuildId: 'r2' }, after(requested), now)).toEqual([]);
    for (const end of [rebuilt, canceled, failed]) expect(rebuildDecider.decide(order, after(requested, end), now)).toEqual([requested]);
  });

  it('is canceled only while it runs', () => {
    expect(rebuildDecider.decide({ type: 'CancelRebuild' }, after(requested), now)).toEqual([canceled]);
    expect(() => rebuildDecider.decide({ type: 'CancelRebuild' }, after(requested, rebuilt), now)).toThrow('No rebuild');
  });

  it('ends with the outcome of its own order, not with that of another one', () => {
    expect(rebuildDecider.decide({ type: 'RecordRebuilt', rebuildId: 'r1' }, after(requested), now)).toEqual([rebuilt]);
    expect(rebuildDecider.decide({ type: 'RecordFailure', rebuildId: 'r1', reason: 'disk full' }, after(requested), now)).toEqual([failed]);
    expect(rebuildDecider.decide({ type: 'RecordRebuilt', rebuildId: 'r0' }, after(requested), now)).toEqual([]);
    expect(rebuildDecider.decide({ type: 'RecordFailure', rebuildId: 'r0', reason: '' }, after(requested), now)).toEqual([]);
  });
});

describe('a verification of a read model', () => {
  it('is recorded at any time, and leaves a running rebuild alone', () => {
    const record = { type: 'RecordVerification' as const, position: '7', equal: false, differences: 2 };
    for (const state of [after(), after(requested)]) expect(rebuildDecider.decide(record, state, now)).toEqual([verified]);
    expect(after(requested, verified)).toEqual(after(requested));
  });
});
