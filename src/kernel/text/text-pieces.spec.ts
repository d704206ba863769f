import fc from 'fast-check';

import { type TextPiece, TextPieces } from './text-pieces.ts';

const bytesOf = (piece: TextPiece) => ('text' in piece ? Buffer.from(piece.text) : Buffer.from(piece.base64, 'base64'));

/** Returns the pieces of the bytes, which arrive in parts of these lengths. */
function cut(bytes: Buffer, lengths: number[]): TextPiece[] {
  const pieces = new TextPieces();
  const found: (TextPiece | null)[] = [];
  let from = 0;
  for (const length of lengths) found.push(pieces.add(bytes.subarray(from, (from += length))));
  found.push(pieces.add(bytes.subarray(from)), pieces.end());
  expect(pieces.pending).toBe(0);
  return found.filter((piece) => piece !== null);
}

describe('output that is cut into pieces', () => {
  it('is text throughout if it is UTF-8, however it was split', () => {
    const text = fc.string({ unit: 'binary', maxLength: 40 }).filter((each) => each.isWellFormed());
    fc.assert(
      fc.property(text, fc.array(fc.nat(5), { maxLength: 10 }), (given, lengths) => {
        const pieces = cut(Buffer.from(given), lengths);
        expect(pieces.map((piece) => ('text' in piece ? piece.text : '?')).join('')).toBe(given);
      }),
    );
  });

  it('is complete, whatever bytes it has', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), fc.array(fc.nat(5), { maxLength: 10 }), (given, lengths) => {
        expect(Buffer.concat(cut(Buffer.from(given), lengths).map(bytesOf))).toEqual(Buffer.from(given));
      }),
    );
  });
});
