import { Batcher } from './batcher.ts';

const limits = { maxItems: 3, maxBytes: 10, maxWaitMs: 60_000, bytesOf: (item: string) => item.length };

async function* from(...items: string[]): AsyncGenerator<string> {
  yield* items;
}

async function collect(batcher: Batcher<string>): Promise<string[][]> {
  const batches: string[][] = [];
  for await (const batch of batcher.batches()) batches.push(batch);
  return batches;
}

describe('batches', () => {
  it('are cut by number and keep the order', async () => {
    const batcher = new Batcher(limits);
    void batcher.fill(from('a', 'b', 'c', 'd', 'e', 'f', 'g'));
    expect(await collect(batcher)).toEqual([['a', 'b', 'c'], ['d', 'e', 'f'], ['g']]);
  });

  it('are cut by size', async () => {
    const batcher = new Batcher(limits);
    void batcher.fill(from('0123456789', 'a'));
    expect(await collect(batcher)).toEqual([['0123456789'], ['a']]);
  });

  it('never exceed their size but by one item, which is a batch of its own', async () => {
    const batcher = new Batcher(limits);
    void batcher.fill(from('a', 'b', '0123456789abcdef', 'c', 'd'));
    expect(await collect(batcher)).toEqual([['a', 'b'], ['0123456789abcdef'], ['c', 'd']]);
  });

  it('do not wait longer than their time', async () => {
    const batcher = new Batcher({ ...limits, maxWaitMs: 20 });
    let finish = () => {};
    const end = new Promise<void>((resolve) => (finish = resolve));
    void batcher.fill(
      (async function* () {
        yield 'alone';
        await end;
      })(),
    );
    const batches = batcher.batches();
    expect((await batches.next()).value).toEqual(['alone']);
    finish();
    expect((await batches.next()).done).toBe(true);
  });

  it('yield the items before a failure, then the failure', async () => {
    const batcher = new Batcher({ ...limits, maxWaitMs: 20 });
    void batcher.fill(
      (async function* () {
        yield 'before';
        throw new Error('torn');
      })(),
    );
    const batches = batcher.batches();
    expect((await batches.next()).value).toEqual(['before']);
    await expect(batches.next()).rejects.toThrow('torn');
  });

  const skipping = { skips: (item: string) => item === '-', summarize: (count: number, last: string) => `${count} ${last}` };

  it('report how many items were left out, at their position', async () => {
    const batcher = new Batcher({ ...limits, skipping });
    void batcher.fill(from('a', '-', '-', 'b', '-', 'c', '-', '-', '-'));
    expect((await collect(batcher)).flat()).toEqual(['a', '2 -', 'b', '1 -', 'c', '3 -']);
  });

  it('report in time how much was left out, even if no item follows', async () => {
    const batcher = new Batcher({ ...limits, maxWaitMs: 20, skipping });
    let finish = () => {};
    const end = new Promise<void>((resolve) => (finish = resolve));
    void batcher.fill(
      (async function* () {
        yield* ['-', '-'];
        await end;
      })(),
    );
    expect((await batcher.batches().next()).value).toEqual(['2 -']);
    finish();
  });

  it('do not hold up the source while it leaves out much', async () => {
    const batcher = new Batcher({ ...limits, skipping });
    await batcher.fill(from('a', 'b', 'c', ...Array.from({ length: 5_000 }, () => '-')));
    expect((await collect(batcher)).flat()).toEqual(['a', 'b', 'c', '5000 -']);
  });

  it('end the source when their reader leaves', async () => {
    const batcher = new Batcher(limits);
    let ended = false;
    const filled = batcher.fill(
      (async function* () {
        try {
          for (;;) yield 'more';
        } finally {
          ended = true;
        }
      })(),
    );
    for await (const batch of batcher.batches()) {
      expect(batch).toEqual(['more', 'more']);
      break;
    }
    await filled;
    expect(ended).toBe(true);
  });
});
