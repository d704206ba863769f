import type { CommandOutput } from '../agent-commands.ts';
import { ChannelBroken } from './frames.ts';

const HEADER_BYTES = 12;
/** The bytes of one piece, which a pipe in the container accepts completely or not at all. */
const PIECE_BYTES_MAX = 4_096 - HEADER_BYTES;

/** Parses a command's output: pieces, each preceded by its offset (8 bytes) and its length (4 bytes). It buffers at most one header. */
export class CommandPieces {
  private header = Buffer.alloc(0);
  /** The bytes of the piece that have not arrived yet. */
  private left = 0;

  /** `offset` is the least offset that the next byte may have. */
  constructor(private offset: number) {}

  /** Returns the output in these bytes. Throws `ChannelBroken` if the offsets do not increase. */
  *push(bytes: Buffer): Generator<CommandOutput> {
    let at = 0;
    let parts: Buffer[] = [];
    let start = this.offset;
    while (at < bytes.length) {
      if (this.left === 0) {
        const missing = HEADER_BYTES - this.header.length;
        const part = bytes.subarray(at, at + missing);
        this.header = Buffer.concat([this.header, part]);
        at += part.length;
        if (this.header.length < HEADER_BYTES) break;
        const next = this.begin();
        if (next !== this.offset && parts.length > 0) {
          yield { offset: start, bytes: Buffer.concat(parts) };
          parts = [];
        }
        this.offset = next;
      }
      const part = bytes.subarray(at, at + this.left);
      if (part.length === 0) continue;
      if (parts.length === 0) start = this.offset;
      parts.push(part);
      at += part.length;
      this.left -= part.length;
      this.offset += part.length;
    }
    if (parts.length > 0) yield { offset: start, bytes: Buffer.concat(parts) };
  }

  private begin(): number {
    const offset = Number(this.header.readBigUInt64LE(0));
    this.left = this.header.readUInt32LE(8);
    this.header = Buffer.alloc(0);
    if (!Number.isSafeInteger(offset) || offset < this.offset || this.left === 0 || this.left > PIECE_BYTES_MAX)
      throw new ChannelBroken('a piece of output is out of order');
    return offset;
  }
}
