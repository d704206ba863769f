import { setImmediate as yieldToEventLoop } from 'node:timers/promises';

import { RuntimeRefused } from '../../runtime.errors.ts';

/** The largest object that is read, in bytes; a listed container takes about a thousand. */
const LONGEST_OBJECT = 4 * 1024 * 1024;
/** The number of bytes after which the event loop gets a turn; parsing them takes about a millisecond. */
const SLICE = 64 * 1024;

const [QUOTE, BACKSLASH, OPENING, CLOSING] = [1, 2, 3, 4];
/** The meaning of each byte to the scan. Only ASCII bytes matter, and no other character contains them in UTF-8. */
const meanings = new Uint8Array(256);
meanings[0x22] = QUOTE;
meanings[0x5c] = BACKSLASH;
for (const byte of [0x7b, 0x5b]) meanings[byte] = OPENING;
for (const byte of [0x7d, 0x5d]) meanings[byte] = CLOSING;

/**
 * Yields the JSON objects of a long list in batches, as they arrive. Depth 1 is that of the objects in `[{…}, {…}]`, depth 2 that of the
 * objects in `{"Volumes": [{…}, {…}]}`. A list of ten thousand containers takes no more memory than one of ten, and its parsing does not
 * block the event loop. An object that is too long is skipped and reported to `onSkip`: otherwise whoever can create one could make the
 * list unreadable for everybody.
 */
export async function* jsonObjects(
  stream: AsyncIterable<Buffer>,
  depth: 1 | 2,
  onSkip: () => void = () => undefined,
): AsyncGenerator<unknown[]> {
  const scan = new Scan(depth);
  let rest: Buffer = Buffer.alloc(0);
  let sinceTurn = 0;
  for await (const chunk of stream) {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    for (const [from, to] of scan.objectsIn(bytes, rest.length)) yield JSON.parse(`[${bytes.toString('utf8', from, to)}]`) as unknown[];
    const keepFrom = scan.isInside && !scan.isSkipping ? scan.begin : bytes.length;
    rest = bytes.subarray(keepFrom);
    scan.begin -= keepFrom;
    if (rest.length > LONGEST_OBJECT) {
      if (!scan.isSkipping) onSkip();
      scan.isSkipping = true;
      rest = Buffer.alloc(0);
    }
    sinceTurn += chunk.length;
    if (sinceTurn < SLICE) continue;
    sinceTurn = 0;
    await yieldToEventLoop();
  }
  if (scan.isInside) throw new RuntimeRefused('the engine sent an object without an end');
}

/** Finds the start and end of objects across several buffers. */
class Scan {
  /** The offset of the incomplete object in the current bytes. */
  begin = 0;
  /** The value is true while the bytes of the object are discarded. */
  isSkipping = false;
  private level = 0;
  private inText = false;
  private escaped = false;

  constructor(private readonly depth: number) {}

  get isInside(): boolean {
    return this.level > this.depth;
  }

  /** Returns ranges that hold one whole object, or several of the same list with commas between them. */
  objectsIn(bytes: Buffer, from: number): [from: number, to: number][] {
    const { depth } = this;
    let { level, inText, escaped } = this;
    const ranges: [from: number, to: number][] = [];
    let range: [from: number, to: number] | null = null;
    for (let at = from; at < bytes.length; at += 1) {
      const meaning = meanings[bytes[at] as number];
      if (escaped) escaped = false;
      else if (meaning === 0) continue;
      else if (inText) {
        if (meaning === BACKSLASH) escaped = true;
        else if (meaning === QUOTE) inText = false;
      } else if (meaning === QUOTE) inText = true;
      else if (meaning === OPENING) {
        if (level === depth) this.begin = at;
        level += 1;
      } else if (meaning === CLOSING) {
        level -= 1;
        // Another list of the same depth may follow; it is parsed separately.
        if (level < depth) range = null;
        if (level !== depth) continue;
        if (this.isSkipping) range = null;
        else if (range === null) ranges.push((range = [this.begin, at + 1]));
        else range[1] = at + 1;
        this.isSkipping = false;
      }
    }
    Object.assign(this, { level, inText, escaped });
    return ranges;
  }
}
