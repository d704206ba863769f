import { sampleEvent } from '../../../../test/support/sample-event.ts';
import type { StoredEvent } from '../../event-store/event-store.ts';
import { WriteBuffer } from './write-buffer.ts';

const at = (n: number) => String(n).padStart(20, '0');

function event(n: number, data = {}): StoredEvent {
  return { ...sampleEvent('BoatLoaded', data), stream: 'boat-Ark', revision: n, position: at(n), at: new Date(n).toISOString() };
}

describe('events that are buffered for a read model', () => {
  let writes: number[][];
  let isAwaited: boolean;
  let write: (events: StoredEvent[]) => Promise<void>;
  let gathered: WriteBuffer;

  beforeEach(() => {
    jest.useFakeTimers({ now: 0 });
    writes = [];
    isAwaited = false;
    write = async (events) => void writes.push(events.map(({ revision }) => revision));
    gathered = new WriteBuffer(
      (events) => write(events),
      () => isAwaited,
    );
  });
  afterEach(() => void jest.useRealTimers());

  const add = (...numbers: number[]) =>
    gathered.add(
      numbers.map((n) => event(n)),
      at(numbers.at(-1) ?? 0),
    );

  it('are written without delay after a quiet time, and together if they arrive in close succession', async () => {
    await add(1);
    await add(2);
    await add(3, 4);
    expect(writes).toEqual([[1]]);
    expect(gathered.isEmpty).toBe(false);
    await jest.advanceTimersByTimeAsync(25);
    expect(writes).toEqual([[1], [2, 3, 4]]);
    expect(gathered.isEmpty).toBe(true);
    await jest.advanceTimersByTimeAsync(25);
    await add(5);
    expect(writes).toEqual([[1], [2, 3, 4], [5]]);
  });

  it('are written without delay if a reader waits for them, since before they arrived or after', async () => {
    await add(1);
    await add(2);
    gathered.flushSoon();
    await gathered.flush();
    expect(writes).toEqual([[1], [2]]);
    isAwaited = true;
    await add(3);
    expect(writes).toEqual([[1], [2], [3]]);
  });

  it('are bounded: no more are accepted until the buffered ones are written', async () => {
    await add(1);
    let written = () => {};
    write = async (events) => {
      await new Promise<void>((resolve) => (written = resolve));
      writes.push(events.map(({ revision }) => revision));
    };
    let isTaken = false;
    const big = gathered.add([event(2, { freight: 'x'.repeat(4 * 1024 * 1024) })], at(2)).then(() => (isTaken = true));
    await jest.advanceTimersByTimeAsync(1_000);
    expect(isTaken).toBe(false);
    written();
    await big;
    expect(writes).toEqual([[1], [2]]);
  });

  it('are followed by no others if they could not be written', async () => {
    await add(1);
    write = () => Promise.reject(new Error('the disk is full'));
    await add(2);
    await jest.advanceTimersByTimeAsync(25);
    await expect(gathered.failed).rejects.toThrow('the disk is full');
    write = async (events) => void writes.push(events.map(({ revision }) => revision));
    await jest.advanceTimersByTimeAsync(25);
    await expect(add(3)).rejects.toThrow('the disk is full');
    expect(writes).toEqual([[1]]);
  });
});
