import fc from 'fast-check';

import { LINE_BYTES_MAX, OutputLines } from './output-lines.ts';

function linesOf(pieces: readonly Uint8Array[]): string[] {
  const lines: string[] = [];
  const output = new OutputLines((line) => lines.push(line));
  for (const piece of pieces) output.push(piece);
  output.end();
  return lines;
}

/**
 * Returns the lines of a text at once: the last of them only if it is not empty, and none between a carriage return and what follows it.
 */
function linesAtOnce(text: string): string[] {
  const lines = text
    .replaceAll(/\r+\n/g, '\n')
    .replaceAll(/(^|\n)\r+/g, '$1')
    .replaceAll(/\r+/g, '\n')
    .split('\n');
  if (lines.at(-1) === '') lines.pop();
  return lines.map((line) => line.replaceAll('\0', '\uFFFD'));
}

/** Cuts the bytes at these places. */
function cut(bytes: Uint8Array, places: readonly number[]): Uint8Array[] {
  const ends = [...places.map((place) => place % (bytes.length + 1)), bytes.length].toSorted((a, b) => a - b);
  return ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end));
}

describe('the lines of an output', () => {
  const parts = fc.constantFrom('\n', '\r', '\r\n', 'a', 'deployed', 'é', '→', '🚢', '\0', '\u001b[2K', ' ');
  const texts = fc.array(parts, { maxLength: 60 }).map((each) => each.join(''));

  it('are the same wherever its chunks were cut', () => {
    fc.assert(
      fc.property(texts, fc.array(fc.nat(), { maxLength: 20 }), (text, places) => {
        expect(linesOf(cut(Buffer.from(text), places))).toEqual(linesAtOnce(text));
      }),
      { numRuns: 1_000 },
    );
  });

  it('have a bounded length, end in a whole character, and do not lengthen the next line', () => {
    const long = fc.record({
      before: fc.nat(8),
      character: fc.constantFrom('a', 'é', '→', '🚢'),
      more: fc.integer({ min: 1, max: 5_000 }),
    });
    fc.assert(
      fc.property(long, fc.array(fc.nat(), { maxLength: 20 }), ({ before, character, more }, places) => {
        const size = Buffer.byteLength(character);
        const text = `${'-'.repeat(before)}${character.repeat(Math.ceil(LINE_BYTES_MAX / size) + more)}\nnext`;
        const kept = '-'.repeat(before) + character.repeat(Math.floor((LINE_BYTES_MAX - before) / size));
        expect(linesOf(cut(Buffer.from(text), places)).map((line) => line === kept || line)).toEqual([true, 'next']);
      }),
      { numRuns: 50 },
    );
  });

  it('without a line end are emitted at the end, and only once', () => {
    const lines: string[] = [];
    const output = new OutputLines((line) => lines.push(line));
    output.push(Buffer.from('ready'));
    expect(lines).toEqual([]);
    output.end();
    output.end();
    expect(lines).toEqual(['ready']);
  });

  it('show invalid UTF-8 as replacement characters', () => {
    expect(linesOf([Buffer.from([0x61, 0xff, 0x0a, 0xe2, 0x86])])).toEqual(['a\uFFFD', '\uFFFD']);
  });
});
