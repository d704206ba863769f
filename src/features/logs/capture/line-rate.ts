import { TokenBucket } from '../../../kernel/limits/token-bucket.ts';
import type { LogLine } from '../../../runtime/runtime.ts';

/** The lines that an agent may print per second, and in one burst after it was silent. */
export const LINES_PER_SECOND = 2_000;
export const LINES_AT_ONCE = 20_000;
/**
 * The output of containers that one process reads in a second, in lines as `linesOf` counts them, and those of one container at a time. The
 * engine keeps what they print meanwhile.
 */
export const OUTPUT_LINES = { perSecond: 4_000, accountPart: 1 / 2, atATime: 100 };
/** This many characters count as one line. A longer line counts as several. */
const CHARACTERS = 256;

/**
 * Bounds how much of one container's output is kept, by the times at which it was printed. So it makes no difference how fast the output is
 * read, and output that was printed slowly while nobody read it is kept. Once too much was printed, nothing is kept until a second's worth
 * of lines may be.
 */
export class LineRate {
  private readonly bucket = new TokenBucket({ perSecond: LINES_PER_SECOND, savedMax: LINES_AT_ONCE });
  private isOver = false;

  /** Returns whether the line has to be left out. */
  exceeds({ text, cursor }: LogLine): boolean {
    const printedMs = Date.parse(cursor.time);
    const cost = linesOf(text);
    this.isOver = this.bucket.left(printedMs) < (this.isOver ? LINES_PER_SECOND : cost);
    if (!this.isOver) this.bucket.spend(cost, printedMs);
    return this.isOver;
  }
}

/** Returns how many lines the text counts as. */
export function linesOf(text: string): number {
  return linesOfLength(text.length);
}

/** Like `linesOf`, for a text whose length is known only. */
export function linesOfLength(length: number): number {
  return 1 + Math.floor(length / CHARACTERS);
}

/** Returns the line that replaces `count` lines, with the cursor of the last of them. */
export function skippedLinesSummary(count: number, last: LogLine): LogLine {
  const message = `${count} ${count === 1 ? 'line' : 'lines'} of output left out here: an agent may print ${LINES_PER_SECOND} lines a second, ${LINES_AT_ONCE} at once.`;
  return { ...last, text: JSON.stringify({ level: 'warning', message }) };
}
