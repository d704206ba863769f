import { StringDecoder } from 'node:string_decoder';

/** The number of bytes that are kept of a line; the rest of a longer line is dropped. It exceeds what any log shows of a line. */
export const LINE_BYTES_MAX = 64 * 1024;
const BUFFER_BYTES_MIN = 256;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/**
 * Assembles lines from the chunks of one output, and buffers at most one line. A carriage return restarts the line, and each of its
 * versions counts as a line.
 */
export class OutputLines {
  private buffer = Buffer.alloc(0);
  private length = 0;
  private isCut = false;
  /** The value is true if a carriage return ended the last line: a line feed then belongs to it. */
  private isReturned = false;

  constructor(private readonly line: (text: string) => void) {}

  push(bytes: Uint8Array): void {
    let begin = 0;
    for (let at = 0; at < bytes.length; at++) {
      const byte = bytes[at];
      if (byte !== LINE_FEED && byte !== CARRIAGE_RETURN) continue;
      this.add(bytes.subarray(begin, at));
      begin = at + 1;
      const isLine = this.length > 0 || (byte === LINE_FEED && !this.isReturned);
      if (isLine) this.pass();
      this.isReturned = byte === CARRIAGE_RETURN && (isLine || this.isReturned);
    }
    this.add(bytes.subarray(begin));
  }

  /** Emits a last line without a line end. */
  end(): void {
    if (this.length > 0) this.pass();
    this.isReturned = false;
  }

  private add(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    this.isReturned = false;
    const room = LINE_BYTES_MAX - this.length;
    if (bytes.length > room) this.isCut = true;
    const kept = bytes.subarray(0, room);
    const length = this.length + kept.length;
    if (length > this.buffer.length) {
      const larger = Buffer.alloc(Math.min(LINE_BYTES_MAX, Math.max(BUFFER_BYTES_MIN, 2 * length)));
      this.buffer.copy(larger, 0, 0, this.length);
      this.buffer = larger;
    }
    this.buffer.set(kept, this.length);
    this.length = length;
  }

  private pass(): void {
    const bytes = this.buffer.subarray(0, this.length);
    // The decoder holds back a character that the cut has split.
    const text = this.isCut ? new StringDecoder('utf8').write(bytes) : bytes.toString('utf8');
    this.length = 0;
    this.isCut = false;
    // The log can't store NULs.
    this.line(text.replaceAll('\0', '\uFFFD'));
  }
}
