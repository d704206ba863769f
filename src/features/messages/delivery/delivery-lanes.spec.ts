import type { Config } from '../../../kernel/config/config.ts';
import { TOLERATED_FAILURES } from './failing-agent-backoff.ts';
import { DeliveryLanes } from './delivery-lanes.ts';

const lanes = (deliveriesMax = 8) => {
  const all = new DeliveryLanes({ deliveriesMax } as Config);
  return { known: all.of({ tokenless: false }), tokenless: all.of({ tokenless: true }) };
};
const signal = () => new AbortController().signal;
const forever = () => new Promise<void>(() => {});
const of = (agent: string) => ({ account: 'acme', agent });

describe('the places of messages', () => {
  const runningOf = (deliveriesMax: number, agents: number) => {
    const { known } = lanes(deliveriesMax);
    for (let count = 0; count < 2_100; count += 1) void known.slots.run(of(`agent ${count % agents}`), signal(), forever);
    return known.stats().running;
  };

  it('are half of all for one account, and 32 for one agent, or a 125th if that is more', () => {
    expect([runningOf(4_000, 1), runningOf(4_000, 100)]).toEqual([32, 2_000]);
    expect([runningOf(100, 1), runningOf(20, 1), runningOf(10_000, 1)]).toEqual([32, 10, 80]);
  });
});

describe('messages other than webhooks without a token', () => {
  afterEach(() => void jest.useRealTimers());

  it('do not wait for a slot, however many of those have one', async () => {
    const { known, tokenless } = lanes();
    for (const agent of ['a', 'a', 'b', 'c']) void tokenless.slots.run(of(agent), signal(), forever);
    expect(tokenless.stats()).toMatchObject({ running: 1, waiting: 3 });
    void known.slots.run(of('a'), signal(), forever);
    expect(known.stats()).toMatchObject({ running: 1, waiting: 0 });
  });

  it('do not wait after answers to webhooks without a token that could not be used', async () => {
    const { known, tokenless } = lanes();
    for (let n = 0; n < TOLERATED_FAILURES + 10; n += 1) tokenless.backoff.recordFailure('a');
    jest.useFakeTimers();
    const onTurn = jest.fn();
    void known.backoff.waitForTurn('a', null, signal()).then(onTurn);
    await jest.advanceTimersByTimeAsync(0);
    expect(onTurn).toHaveBeenCalled();
  });

  it('do not wait for memory that messages without a token use', () => {
    const { known, tokenless } = lanes();
    for (let n = 0; n < 10; n += 1) void tokenless.texts.acquire({ account: 'acme' }, signal(), 1_048_576);
    void known.texts.acquire({ account: 'acme' }, signal(), 1_048_576);
    expect(known.stats().bytes).toBe(1_048_576);
    expect(tokenless.stats().bytes).toBe(2 * 1_048_576);
  });
});
