import type { SagaPass, Sagas } from '../../../eventsourcing/sagas/saga.ts';
import type { EngineLimits } from '../../../sandboxes/services.ts';
import type { ImageSweep } from './image-sweep.service.ts';
import { ImagesSaga } from './images.saga.ts';

const NOON = Date.UTC(2026, 0, 1, 12);
const pass = { assertLease: () => undefined, withoutSlot: (work: () => Promise<unknown>) => work() } as SagaPass;

/** A saga on an engine that did its last heavy work so long ago, at a time that the test sets. */
function sagaOn(engine: { quietMs: number }) {
  const sweep = jest.fn(async () => false);
  const saga = new ImagesSaga({} as Sagas, { run: sweep } as unknown as ImageSweep, engine as EngineLimits);
  const lookAt = async (seconds: number): Promise<number> => {
    jest.spyOn(Date, 'now').mockReturnValue(NOON + seconds * 1_000);
    return ((await saga.reconcile('all', pass))?.getTime() ?? NaN) - NOON - seconds * 1_000;
  };
  return { sweep, lookAt };
}

describe('the sweep of unused images', () => {
  afterEach(() => jest.restoreAllMocks());

  it('starts immediately on an idle engine', async () => {
    const { sweep, lookAt } = sagaOn({ quietMs: Infinity });
    expect(await lookAt(0)).toBe(600_000);
    expect(sweep).toHaveBeenCalledTimes(1);
  });

  it('waits while containers are started, and for five seconds after that', async () => {
    const engine = { quietMs: 0 };
    const { sweep, lookAt } = sagaOn(engine);
    expect(await lookAt(0)).toBe(5_000);
    engine.quietMs = 4_900;
    expect(await lookAt(5)).toBe(5_000);
    expect(sweep).not.toHaveBeenCalled();
    engine.quietMs = 5_000;
    await lookAt(10);
    expect(sweep).toHaveBeenCalledTimes(1);
  });

  it('waits for a minute at most, however busy the engine is', async () => {
    const { sweep, lookAt } = sagaOn({ quietMs: 0 });
    await lookAt(0);
    await lookAt(59);
    expect(sweep).not.toHaveBeenCalled();
    await lookAt(60);
    expect(sweep).toHaveBeenCalledTimes(1);
  });
});
