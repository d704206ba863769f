/** Plain JavaScript, because the supervisor of a local agent runs it without a build. */

/** The longest text of a line that is kept, in bytes; a longer one ends in a mark. */
export const LINE_BYTES_MAX = 256 * 1024;

const CARRIAGE_RETURN = 0x0d;

/**
 * Joins the pieces of one line, without its line feed. It keeps the first 256 KiB and counts the rest. What a carriage return overwrites is
 * dropped, so that of a progress bar its last state is kept.
 */
export class LongLine {
  #pieces = [];
  #length = 0;
  #dropped = 0;
  #isReturned = false;

  /**
   * Adds a piece. `mayHold` is asked with the size that the kept part would have; once it refuses, the rest of the line is only counted.
   *
   * @param {Uint8Array} bytes
   * @param {(size: number) => boolean} [mayHold]
   */
  add(bytes, mayHold = () => true) {
    let end = bytes.length;
    while (end > 0 && bytes[end - 1] === CARRIAGE_RETURN) end -= 1;
    const returned = bytes.subarray(0, end).lastIndexOf(CARRIAGE_RETURN);
    const isAnew = (this.#isReturned && end > 0) || returned !== -1;
    if (isAnew) this.#clear();
    this.#isReturned = end < bytes.length || (end === 0 && this.#isReturned);
    const rest = bytes.subarray(returned + 1, end);
    const kept = this.#dropped > 0 ? 0 : Math.min(rest.length, LINE_BYTES_MAX - this.#length);
    if (kept > 0 && mayHold(this.#length + kept)) {
      // The piece is copied, because it is a part of a larger buffer that would stay in memory with it.
      this.#pieces.push(Uint8Array.prototype.slice.call(rest, 0, kept));
      this.#length += kept;
      this.#dropped += rest.length - kept;
    } else this.#dropped += rest.length;
  }

  /** Returns the line as UTF-8 without NUL, with U+FFFD for invalid bytes. A line that was cut ends in a whole character and a mark. */
  text() {
    const bytes = Buffer.concat(this.#pieces, this.#length);
    const kept = this.#dropped > 0 ? wholeCharacters(bytes) : bytes;
    const text = kept.toString('utf8').replaceAll('\0', '\uFFFD');
    if (this.#dropped === 0 && Buffer.byteLength(text) <= LINE_BYTES_MAX) return text;
    // U+FFFD is longer than the byte that it replaces, so the limit is applied again.
    const encoded = Buffer.from(text);
    const within = encoded.length <= LINE_BYTES_MAX ? encoded : wholeCharacters(encoded.subarray(0, LINE_BYTES_MAX));
    const dropped = this.#dropped + (bytes.length - kept.length) + (encoded.length - within.length);
    return `${within.toString('utf8')} … (cut here: ${dropped} more bytes were printed)`;
  }

  #clear() {
    this.#pieces = [];
    this.#length = 0;
    this.#dropped = 0;
  }
}

/** Returns the bytes without an incomplete character at their end. */
function wholeCharacters(bytes) {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back];
    if (byte < 0x80) return bytes;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 0;
    if (length > 0) return length > back ? bytes.subarray(0, -back) : bytes;
  }
  return bytes;
}
