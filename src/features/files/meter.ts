import { Transform, type TransformCallback } from 'node:stream';

/** The longest time for which a reader may read nothing although data is available, in ms. */
const STALL_MS = 30_000;

/**
 * Passes bytes on and checks their number: exactly `bytes` or, if the number is not known beforehand, at most `bytesMax`. It fails if the
 * number differs, or if its reader reads nothing for 30 s.
 */
export class Meter extends Transform {
  private passedBytes = 0;
  private readonly timer: NodeJS.Timeout;

  constructor(private readonly expected: { bytes: number } | { bytesMax: number }) {
    super({ highWaterMark: 65_536 });
    this.timer = setTimeout(() => {
      if (this.readableLength > 0) this.destroy(new Error('the reader of the download stalled'));
      else this.timer.refresh();
    }, STALL_MS);
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.timer.refresh();
    this.passedBytes += chunk.length;
    const most = 'bytes' in this.expected ? this.expected.bytes : this.expected.bytesMax;
    if (this.passedBytes > most) done(new Error('more bytes came than the download may have'));
    else done(null, chunk);
  }

  override _flush(done: TransformCallback): void {
    const isShort = 'bytes' in this.expected && this.passedBytes < this.expected.bytes;
    done(isShort ? new Error('fewer bytes came than were announced') : null);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    clearTimeout(this.timer);
    done(error);
  }
}
