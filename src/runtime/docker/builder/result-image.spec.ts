import { resultOf, sharedLayers } from './result-image.ts';

const digest = (letter: string): string => `sha256:${letter.repeat(64)}`;
const manifest = (...letters: string[]): string =>
  JSON.stringify({ layers: letters.map((letter) => ({ digest: digest(letter), size: 1 })) });
const config = (...letters: string[]): string => JSON.stringify({ rootfs: { diff_ids: letters.map(digest) } });

describe('the layers of an image that an engine already has', () => {
  it('are the first ones that it shares with one of the others, in the same order', () => {
    expect(sharedLayers(['a', 'b', 'c'], [['a'], ['a', 'b', 'x'], ['b', 'c']])).toBe(2);
    expect(sharedLayers(['a', 'b'], [['a', 'b', 'c']])).toBe(2);
    expect(sharedLayers(['a'], [])).toBe(0);
    expect(sharedLayers([], [['a']])).toBe(0);
  });
});

describe('the result of a build', () => {
  it('is read from its manifest and its configuration', () => {
    expect(resultOf(manifest('a', 'b'), config('c', 'd'))).toMatchObject({
      diffIds: [digest('c'), digest('d')],
      layers: [{ digest: digest('a') }, { digest: digest('b') }],
    });
  });

  it('is refused if the two do not match, or a layer is not named by its digest', () => {
    expect(() => resultOf(manifest('a'), config('c', 'd'))).toThrow(/can’t be read/);
    expect(() => resultOf('', '')).toThrow(/can’t be read/);
    expect(() => resultOf(JSON.stringify({ layers: [{ digest: '../../etc/passwd', size: 1 }] }), config('c'))).toThrow(/can’t be read/);
    const many = Array.from({ length: 128 }, () => 'a');
    expect(() => resultOf(manifest(...many), config(...many))).toThrow(/more than 127 layers/);
  });
});
