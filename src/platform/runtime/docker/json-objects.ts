import { RuntimeRefused } from '../runtime.ts';

/** Bytes of one object; a container that is listed takes about a thousand. */
const LONGEST_OBJECT = 4 * 1024 * 1024;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPENING = new Set([0x7b, 0x5b]);
const CLOSING = new Set([0x7d, 0x5d]);

/**
 * The JSON objects of a long list, some at a time, as they arrive: 1 is the depth of the objects in `[{…}, {…}]`, 2 that of those in
 * `{"Volumes": [{…}, {…}]}`. A list of ten thousand containers takes no more memory than one of ten, and holds up nobody while it is
 * parsed.
 */
export async function* jsonObjects(stream: AsyncIterable<Buffer>, depth: 1 | 2): AsyncGenerator<unknown[]> {
  const scan = new Scan(depth);
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of stream) {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    const objects: unknown[] = [];
    for (const [from, to] of scan.objectsIn(bytes, rest.length)) objects.push(JSON.parse(bytes.toString('utf8', from, to)));
    const keepFrom = scan.isInside ? scan.begin : bytes.length;
    rest = bytes.subarray(keepFrom);
    scan.begin -= keepFrom;
    if (rest.length > LONGEST_OBJECT) throw new RuntimeRefused('the engine sent an object without an end');
    if (objects.length > 0) yield objects;
  }
}

/** Finds where objects begin and end, over several buffers. Only ASCII matters to it, which no other character contains in UTF-8. */
class Scan {
  /** Where the object that has begun begins, in the bytes at hand. */
  begin = 0;
  private level = 0;
  private inText = false;
  private escaped = false;

  constructor(private readonly depth: number) {}

  get isInside(): boolean {
    return this.level > this.depth;
  }

  *objectsIn(bytes: Buffer, from: number): Generator<[from: number, to: number]> {
    for (let at = from; at < bytes.length; at += 1) {
      const byte = bytes[at] as number;
      if (this.escaped) this.escaped = false;
      else if (this.inText) {
        if (byte === BACKSLASH) this.escaped = true;
        else if (byte === QUOTE) this.inText = false;
      } else if (byte === QUOTE) this.inText = true;
      else if (OPENING.has(byte)) {
        if (this.level === this.depth) this.begin = at;
        this.level += 1;
      } else if (CLOSING.has(byte)) {
        this.level -= 1;
        if (this.level === this.depth) yield [this.begin, at + 1];
      }
    }
  }
}
