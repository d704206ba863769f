import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { AnonymousReads } from './anonymous-reads.ts';

/** A read that ends when the test says so. */
function held(): { read: () => Promise<string>; end: () => void; began: () => boolean } {
  let [hasBegun, end] = [false, () => {}];
  const ended = new Promise<string>((resolve) => (end = () => resolve('read')));
  return {
    read: () => {
      hasBegun = true;
      return ended;
    },
    end: () => end(),
    began: () => hasBegun,
  };
}

/** Lets everything run that need not wait. */
const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('Reads for callers who are not known', () => {
  afterEach(() => jest.useRealTimers());

  it('are two at a time, and those of one network do not delay those of another', async () => {
    const reads = new AnonymousReads();
    const first = Array.from({ length: 100 }, held);
    const running = first.map(({ read }) => reads.run('a', read));
    const other = held();
    running.push(reads.run('b', other.read));
    await turn();
    expect(first.filter(({ began }) => began())).toHaveLength(2);
    for (const { end } of first.slice(0, 2)) end();
    await turn();
    expect(other.began()).toBe(true);
    for (const { end } of [...first, other]) end();
    expect(await Promise.all(running)).toEqual(Array.from({ length: 101 }, () => 'read'));
  });

  it('are refused beyond a limit, which other networks do not use up, and are accepted again below it', async () => {
    const reads = new AnonymousReads();
    const begun = Array.from({ length: 252 }, held);
    const running = begun.slice(0, 2).map(({ read }) => reads.run('a', read));
    await turn();
    running.push(...begun.slice(2).map(({ read }) => reads.run('a', read)));
    await expect(reads.run('a', async () => 'read')).rejects.toMatchObject({ code: 'rate_limited' });
    running.push(reads.run('b', async () => 'read'));
    for (const { end } of begun) end();
    await Promise.all(running);
    expect(await reads.run('a', async () => 'read')).toBe('read');
  });

  it('are refused if they get no slot in time, and pass on the error of the read', async () => {
    jest.useFakeTimers();
    const reads = new AnonymousReads();
    const slow = [held(), held()];
    const running = slow.map(({ read }) => reads.run('a', read));
    const late = reads.run('b', async () => 'read').catch((error: unknown) => error);
    await jest.advanceTimersByTimeAsync(5_000);
    expect(await late).toBeInstanceOf(ProblemError);
    for (const { end } of slow) end();
    expect(await Promise.all(running)).toEqual(['read', 'read']);
    await expect(reads.run('b', () => Promise.reject(new Error('away')))).rejects.toThrow('away');
  });
});
