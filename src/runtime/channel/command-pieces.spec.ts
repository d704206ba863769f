import fc from 'fast-check';

import type { CommandOutput } from '../agent-commands.ts';
import { CommandPieces } from './command-pieces.ts';
import { ChannelBroken } from './frames.ts';

function piece(offset: number, bytes: Buffer): Buffer {
  const head = Buffer.alloc(12);
  head.writeBigUInt64LE(BigInt(offset), 0);
  head.writeUInt32LE(bytes.length, 8);
  return Buffer.concat([head, bytes]);
}

/** Returns the bytes by their offsets. */
function placed(pieces: Iterable<CommandOutput>): [number, number][] {
  return [...pieces].flatMap(({ offset, bytes }) => [...bytes].map((byte, at): [number, number] => [offset + at, byte]));
}

describe('the pieces of a command’s output', () => {
  it('have the offsets that they were sent with, however the bytes come', () => {
    const sent = fc.array(fc.tuple(fc.integer({ min: 0, max: 3 }), fc.uint8Array({ minLength: 1, maxLength: 50 })), { maxLength: 20 });
    fc.assert(
      fc.property(sent, fc.integer({ min: 1, max: 40 }), (skips, step) => {
        const expected: [number, number][] = [];
        const parts: Buffer[] = [];
        let at = 5;
        for (const [skip, bytes] of skips) {
          at += skip;
          parts.push(piece(at, Buffer.from(bytes)));
          for (const byte of bytes) expected.push([at++, byte]);
        }
        const all = Buffer.concat(parts);
        const pieces = new CommandPieces(5);
        const found: [number, number][] = [];
        for (let from = 0; from < all.length; from += step) found.push(...placed(pieces.push(all.subarray(from, from + step))));
        expect(found).toEqual(expected);
      }),
    );
  });

  it.each([
    ['go back', piece(4, Buffer.from('x'))],
    ['are empty', piece(5, Buffer.alloc(0))],
    ['are longer than a pipe takes', piece(5, Buffer.alloc(4_085))],
    ['begin beyond any number', Buffer.concat([Buffer.alloc(8, 0xff), piece(5, Buffer.from('x')).subarray(8)])],
    ['overlap', Buffer.concat([piece(5, Buffer.from('xyz')), piece(7, Buffer.from('x'))])],
  ])('are rejected if they %s', (_, bytes) => {
    expect(() => [...new CommandPieces(5).push(bytes)]).toThrow(ChannelBroken);
  });

  it('are accepted or rejected whatever an agent sends, and never exceed what it sent', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 60 }), { maxLength: 30 }), (chunks) => {
        const pieces = new CommandPieces(0);
        let [sent, found] = [0, 0];
        try {
          for (const chunk of chunks) {
            sent += chunk.length;
            for (const { bytes } of pieces.push(Buffer.from(chunk))) found += bytes.length;
          }
        } catch (error) {
          expect(error).toBeInstanceOf(ChannelBroken);
        }
        expect(found).toBeLessThanOrEqual(sent);
      }),
      { numRuns: 1_000 },
    );
  });
});
