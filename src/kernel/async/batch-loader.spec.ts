import { BatchLoader } from './batch-loader.ts';

interface Question {
  keys: string[];
  answer(found: Record<string, number>): void;
  fail(error: Error): void;
}

function asked(): { questions: Question[]; shared: BatchLoader<string, number> } {
  const questions: Question[] = [];
  const shared = new BatchLoader<string, number>(
    (keys) =>
      new Promise((resolve, reject) => {
        questions.push({ keys, answer: (found) => resolve(new Map(Object.entries(found))), fail: reject });
      }),
  );
  return { questions, shared };
}

/** Lets everything proceed that waits for nothing else. */
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

describe('reads that are batched', () => {
  it('begin immediately, and those that are requested meanwhile become one', async () => {
    const { questions, shared } = asked();
    const first = shared.load('a');
    await settle();
    const others = [shared.load('b'), shared.load('c'), shared.load('b')];
    await settle();
    expect(questions.map(({ keys }) => keys)).toEqual([['a']]);
    questions[0]?.answer({ a: 1 });
    expect(await first).toBe(1);
    await settle();
    expect(questions.map(({ keys }) => keys)).toEqual([['a'], ['b', 'c']]);
    questions[1]?.answer({ b: 2 });
    expect(await Promise.all(others)).toEqual([2, undefined, 2]);
  });

  it('return no result that is older than their call', async () => {
    const { questions, shared } = asked();
    const early = shared.load('a');
    await settle();
    const late = shared.load('a');
    questions[0]?.answer({ a: 1 });
    await settle();
    questions[1]?.answer({ a: 2 });
    expect([await early, await late]).toEqual([1, 2]);
  });

  it('fail together, and do not prevent the next one', async () => {
    const { questions, shared } = asked();
    const failed = Promise.allSettled([shared.load('a'), shared.load('b')]);
    await settle();
    const next = shared.load('c');
    questions[0]?.fail(new Error('away'));
    expect((await failed).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    await settle();
    questions[1]?.answer({ c: 3 });
    expect(await next).toBe(3);
  });
});
