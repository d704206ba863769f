import fc from 'fast-check';

import { LINE_BYTES_MAX, LongLine } from './long-line.mjs';

function lineOf(pieces: readonly Uint8Array[], mayHold?: (size: number) => boolean): string {
  const line = new LongLine();
  for (const piece of pieces) line.add(piece, mayHold);
  return line.text();
}

/** Returns the line at once: the last state that a carriage return leaves. */
const atOnce = (text: string): string => text.replace(/\r+$/, '').split('\r').at(-1)?.replaceAll('\0', '\uFFFD') ?? '';

/** Cuts the bytes at these places. */
function cut(bytes: Uint8Array, places: readonly number[]): Uint8Array[] {
  const ends = [...places.map((place) => place % (bytes.length + 1)), bytes.length].toSorted((a, b) => a - b);
  return ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end));
}

describe('a line of output', () => {
  const parts = fc.constantFrom('\r', '\r\r', 'a', '50 %', 'é', '→', '🚢', '\0', '\u001b[2K', ' ');

  it('is the same wherever its pieces were cut, and is what a terminal would show last', () => {
    fc.assert(
      fc.property(fc.array(parts, { maxLength: 40 }), fc.array(fc.nat(), { maxLength: 20 }), (texts, places) => {
        const text = texts.join('');
        expect(lineOf(cut(Buffer.from(text), places))).toBe(atOnce(text));
      }),
      { numRuns: 1_000 },
    );
  });

  it('has a bounded length, ends in a whole character, and says how many bytes are missing', () => {
    const long = fc.record({
      before: fc.nat(8),
      character: fc.constantFrom('a', 'é', '→', '🚢'),
      more: fc.integer({ min: 1, max: 5_000 }),
    });
    fc.assert(
      fc.property(long, fc.array(fc.nat(), { maxLength: 20 }), ({ before, character, more }, places) => {
        const size = Buffer.byteLength(character);
        const bytes = Buffer.from('-'.repeat(before) + character.repeat(Math.ceil(LINE_BYTES_MAX / size) + more));
        const kept = '-'.repeat(before) + character.repeat(Math.floor((LINE_BYTES_MAX - before) / size));
        const mark = ` … (cut here: ${bytes.length - Buffer.byteLength(kept)} more bytes were printed)`;
        expect(lineOf(cut(bytes, places)) === kept + mark).toBe(true);
      }),
      { numRuns: 50 },
    );
  });

  it('has no gap if a piece in its midst could not be held', () => {
    let asked = 0;
    const mayHold = () => (asked += 1) !== 2;
    expect(
      lineOf(
        ['first', 'second', 'third'].map((text) => Buffer.from(text)),
        mayHold,
      ),
    ).toBe('first … (cut here: 11 more bytes were printed)');
  });
});
