import type { Duplex } from 'node:stream';

import { DesktopUnreachable } from './desktop-errors.ts';

/** The most bytes that are read as one piece. Larger data is copied to its target, or skipped, as it arrives. */
const PIECE_BYTES_MAX = 1_048_576;

/**
 * Reads a stream in pieces of exact length. It never reads ahead, so the stream applies backpressure to the sender, and only the stream's
 * buffer and one chunk are in memory.
 */
export class ByteReader {
  private chunk: Buffer = Buffer.alloc(0);
  private wake: (() => void) | null = null;
  private failure: Error | null = null;

  constructor(private readonly stream: Duplex) {
    stream.on('readable', () => this.wake?.());
    stream.once('end', () => this.fail(new DesktopUnreachable('it ended the connection')));
    stream.once('close', () => this.fail(new DesktopUnreachable('the connection was closed')));
    stream.on('error', (error) => this.fail(new DesktopUnreachable(error.message)));
  }

  /** Rejects the current read, and all later ones, with the first error. */
  fail(error: Error): void {
    this.failure ??= error;
    this.wake?.();
  }

  /** Returns the next bytes. The buffer stays valid. */
  async read(length: number): Promise<Buffer> {
    if (length > PIECE_BYTES_MAX) throw new DesktopUnreachable(`it announced ${length} bytes at once`);
    if (this.chunk.length >= length) return this.sliceChunk(length);
    const piece = Buffer.allocUnsafe(length);
    await this.copy(piece, 0, length);
    return piece;
  }

  /** Copies the next bytes into the target. */
  async copy(target: Buffer, offset: number, length: number): Promise<void> {
    for (let done = 0; done < length;) {
      if (this.chunk.length === 0) await this.next();
      const part = this.sliceChunk(Math.min(this.chunk.length, length - done));
      part.copy(target, offset + done);
      done += part.length;
    }
  }

  async skip(length: number): Promise<void> {
    for (let left = length; left > 0;) {
      if (this.chunk.length === 0) await this.next();
      left -= this.sliceChunk(Math.min(this.chunk.length, left)).length;
    }
  }

  private sliceChunk(length: number): Buffer {
    const part = this.chunk.subarray(0, length);
    this.chunk = this.chunk.subarray(length);
    return part;
  }

  private async next(): Promise<void> {
    for (;;) {
      const chunk = this.stream.read() as Buffer | null;
      if (chunk !== null) {
        this.chunk = chunk;
        return;
      }
      if (this.failure !== null) throw this.failure;
      await new Promise<void>((resolve) => (this.wake = resolve));
      this.wake = null;
    }
  }
}
