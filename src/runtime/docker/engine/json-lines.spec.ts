import { jsonLines } from './engine.ts';

async function* inChunks(text: string, size: number): AsyncGenerator<string> {
  for (let at = 0; at < text.length; at += size) yield text.slice(at, at + size);
}

describe('the engine’s stream of one object a line', () => {
  const long = JSON.stringify({ labels: 'x'.repeat(9 * 1024 * 1024) });

  it.each([1_000_000, 70_000_000])('continues after a line that is too long, in pieces of %d characters', async (size) => {
    const onSkip = jest.fn();
    const found: unknown[] = [];
    const text = `{"n":1}\n${long}\n{"n":2}\n\n{"n":3}`;
    for await (const object of jsonLines(inChunks(text, size), onSkip)) found.push(object);
    expect(found.filter((object) => (object as { n?: number }).n !== undefined)).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }]);
    expect(onSkip).toHaveBeenCalledTimes(size < long.length ? 1 : 0);
  });

  it('that reports the progress of one call ends with such a line', async () => {
    const read = async () => {
      for await (const object of jsonLines(inChunks(long, 1_000_000))) expect(object).toBeNull();
    };
    await expect(read()).rejects.toThrow('without an end');
  });
});
