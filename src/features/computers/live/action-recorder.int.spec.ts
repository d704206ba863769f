import { RecordedActs } from '../../../../test/support/desktop-pool.ts';
import { systemContext } from '../../../kernel/context/command-context.ts';
import { ActionRecorder, type Actor } from './action-recorder.service.ts';

const ana: Actor = { computerId: 'one', context: systemContext('ana', 'acme') };
const ben: Actor = { computerId: 'one', context: systemContext('ben', 'acme') };

describe('the record of acts on computers', () => {
  let acts: RecordedActs;
  let recorder: ActionRecorder;

  beforeEach(() => {
    jest.useFakeTimers();
    acts = new RecordedActs();
    recorder = new ActionRecorder(acts.computers);
  });

  afterEach(() => jest.useRealTimers());

  const counts = () => acts.acts.map(({ actor, actions, batches, screenshots }) => ({ actor, actions, batches, screenshots }));

  it('records the first batch immediately, and those within the next second together at its end', async () => {
    await recorder.countBatch(ana, ['type', 'key', 'key'], 1);
    expect(counts()).toEqual([{ actor: 'ana', actions: { type: 1, key: 2 }, batches: 1, screenshots: 1 }]);
    await recorder.countBatch(ana, ['key'], 0);
    await recorder.countBatch(ana, ['left_click'], 1);
    expect(acts.acts).toHaveLength(1);
    await jest.advanceTimersByTimeAsync(1_000);
    expect(counts().slice(1)).toEqual([{ actor: 'ana', actions: { key: 1, left_click: 1 }, batches: 2, screenshots: 1 }]);
  });

  it('has one event a second for each computer and actor, however many batches there are', async () => {
    for (let tenth = 0; tenth < 100; tenth += 1) {
      await recorder.countBatch(ana, ['key'], 0);
      await recorder.countBatch(ben, ['key'], 0);
      await jest.advanceTimersByTimeAsync(100);
    }
    await recorder.beforeApplicationShutdown();
    const ofAna = acts.acts.filter(({ actor }) => actor === 'ana');
    expect(ofAna.length).toBeLessThanOrEqual(11);
    expect(ofAna.reduce((sum, { batches }) => sum + batches, 0)).toBe(100);
    expect(acts.acts.filter(({ actor }) => actor === 'ben').reduce((sum, { actions }) => sum + (actions['key'] ?? 0), 0)).toBe(100);
  });

  it('has pictures alone every ten seconds', async () => {
    for (let second = 0; second < 20; second += 1) {
      recorder.countScreenshot(ana);
      await jest.advanceTimersByTimeAsync(1_000);
    }
    expect(counts()).toEqual([1, 2].map(() => ({ actor: 'ana', actions: {}, batches: 0, screenshots: 10 })));
    expect(recorder.size).toBe(0);
  });

  it('has nothing of what was typed or where', async () => {
    await recorder.countBatch(ana, ['type'], 0);
    expect(Object.keys(acts.acts[0] ?? {}).sort()).toEqual(['actions', 'actor', 'batches', 'computerId', 'screenshots', 'since', 'until']);
  });

  it('is stored at the stop of the service', async () => {
    recorder.countScreenshot(ana);
    await recorder.beforeApplicationShutdown();
    expect(counts()).toEqual([{ actor: 'ana', actions: {}, batches: 0, screenshots: 1 }]);
  });

  it('is retried if the store is unavailable, and fails no batch', async () => {
    let failures = 2;
    acts.onRecord = async () => {
      if (failures > 0) throw new Error(`the store is away ${(failures -= 1)}`);
    };
    await recorder.countBatch(ana, ['key'], 0);
    expect(acts.acts).toHaveLength(0);
    await jest.advanceTimersByTimeAsync(10_000);
    expect(counts()).toEqual([{ actor: 'ana', actions: { key: 1 }, batches: 1, screenshots: 0 }]);
  });

  it('has a bound: the oldest count is stored early', async () => {
    for (let index = 0; index < 5_001; index += 1) recorder.countScreenshot({ ...ana, computerId: `${index}` });
    await jest.advanceTimersByTimeAsync(0);
    expect(recorder.size).toBe(5_000);
    expect(acts.acts.map(({ computerId }) => computerId)).toEqual(['0']);
  });
});
