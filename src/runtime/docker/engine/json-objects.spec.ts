import fc from 'fast-check';
import { jsonObjects } from './json-objects.ts';

async function* inChunks(text: string, sizes: readonly number[]): AsyncGenerator<Buffer> {
  const bytes = Buffer.from(text);
  for (let at = 0, count = 0; at < bytes.length; count += 1) {
    const size = sizes[count % sizes.length] ?? 1;
    yield bytes.subarray(at, at + size);
    at += size;
  }
}

async function read(text: string, depth: 1 | 2, sizes: readonly number[]): Promise<unknown[]> {
  const found: unknown[] = [];
  for await (const objects of jsonObjects(inChunks(text, sizes), depth)) found.push(...objects);
  return found;
}

const object = fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue({ stringUnit: 'binary' }));
const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 5 });
const space = fc.constantFrom(undefined, 2);

describe('a long list of JSON objects', () => {
  it('is read as the parser reads the whole, wherever it is cut', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(object, { maxLength: 8 }), sizes, space, async (list, cuts, indent) => {
        const text = JSON.stringify(list, null, indent);
        expect(await read(text, 1, cuts)).toEqual(JSON.parse(text));
      }),
    );
  });

  it('is read within an object, too', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(object, { maxLength: 8 }), sizes, space, async (list, cuts, indent) => {
        const text = JSON.stringify({ Warnings: null, Volumes: list }, null, indent);
        expect(await read(text, 2, cuts)).toEqual((JSON.parse(text) as { Volumes: unknown[] }).Volumes);
      }),
    );
  });

  it('is empty if the engine has none', async () => {
    expect(await read('[]\n', 1, [100])).toEqual([]);
    expect(await read('{"Volumes":null,"Warnings":null}', 2, [100])).toEqual([]);
  });

  it.each([[65_536], [1_000_000]])(
    'is read without an object that is too long, which is reported once, in pieces of %d bytes',
    async (size) => {
      const long = { a: 'x"]}\\'.repeat(2 * 1024 * 1024), b: [{}] };
      const onSkip = jest.fn();
      const found: unknown[] = [];
      const text = JSON.stringify([{ n: 1 }, { n: 2 }, long, { n: 3 }, long, { n: 4 }]);
      for await (const objects of jsonObjects(inChunks(text, [size]), 1, onSkip)) found.push(...objects);
      expect(found).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }, { n: 4 }]);
      expect(onSkip).toHaveBeenCalledTimes(2);
    },
  );

  it.each([1, 5 * 1024 * 1024])('is refused if an object of %d bytes never ends', async (size) => {
    const endless = `[{"a":"${'x'.repeat(size)}`;
    await expect(read(endless, 1, [1_000_000])).rejects.toThrow('without an end');
  });
});
