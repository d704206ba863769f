import { isUtf8 } from 'node:buffer';

/** A piece of output: `{text}` if it is UTF-8, and else `{base64}`. */
export type TextPiece = { text: string } | { base64: string };

/** Cuts a stream of bytes into pieces that end with whole characters of UTF-8. */
export class TextPieces {
  /** The beginning of a character whose rest has not arrived. */
  private rest: Buffer = Buffer.alloc(0);

  /** The number of bytes that have arrived and were not returned yet. */
  get pending(): number {
    return this.rest.length;
  }

  /** Returns the piece that is complete after these bytes; null if none is. */
  add(bytes: Buffer): TextPiece | null {
    const all = Buffer.concat([this.rest, bytes]);
    const whole = all.length - unfinishedBytes(all);
    this.rest = all.subarray(whole);
    return pieceOf(all.subarray(0, whole));
  }

  /** Returns the beginning of a character whose rest does not arrive; null if there is none. */
  end(): TextPiece | null {
    const { rest } = this;
    this.rest = Buffer.alloc(0);
    return pieceOf(rest);
  }
}

function pieceOf(bytes: Buffer): TextPiece | null {
  if (bytes.length === 0) return null;
  return isUtf8(bytes) ? { text: bytes.toString() } : { base64: bytes.toString('base64') };
}

/** Returns the number of bytes at the end that begin a UTF-8 character without completing it: 0 to 3. */
function unfinishedBytes(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back] as number;
    if ((byte & 0b1100_0000) === 0b1000_0000) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}
