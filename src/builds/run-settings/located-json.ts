/** A member of a JSON object, with the line of its name; the first line is 1. */
export interface LocatedMember {
  name: string;
  line: number;
  value: unknown;
}

/** A text is not a JSON object, as of this line. */
export class JsonFault extends Error {
  constructor(
    readonly line: number,
    message: string,
  ) {
    super(message);
    this.name = 'JsonFault';
  }
}

const DEPTH_MAX = 16;

/** Parses a JSON object. Members of the same name are all returned, in their order. Throws `JsonFault`. */
export function locatedMembers(text: string): LocatedMember[] {
  const reader = new JsonReader(text);
  const members = reader.members(0);
  reader.end();
  return members;
}

/** Reads one JSON text (RFC 8259) from the beginning to the end. */
class JsonReader {
  private at = 0;
  /** The place up to which line feeds are counted, and the line there. Places are asked for in their order. */
  private readonly counted = { at: 0, line: 1 };

  constructor(private readonly text: string) {}

  /** Reads an object. */
  members(depth: number): LocatedMember[] {
    const members: LocatedMember[] = [];
    this.expect('{', 'an object, which begins with {');
    if (this.accept('}')) return members;
    do {
      this.skipSpace();
      const line = this.line();
      const name = this.string();
      if (name === null) throw this.fault('the name of a member, in quotes');
      this.expect(':', 'a colon');
      members.push({ name, line, value: this.value(depth + 1) });
    } while (this.accept(','));
    this.expect('}', 'a comma or }');
    return members;
  }

  /** Throws unless nothing follows. */
  end(): void {
    this.skipSpace();
    if (this.at < this.text.length) throw this.fault('nothing more');
  }

  private value(depth: number): unknown {
    if (depth > DEPTH_MAX) throw new JsonFault(this.line(), `it is nested more than ${DEPTH_MAX} levels deep`);
    this.skipSpace();
    if (this.text[this.at] === '{') return Object.fromEntries(this.members(depth).map(({ name, value }) => [name, value]));
    if (this.text[this.at] === '[') return this.list(depth);
    const text = this.string();
    if (text !== null) return text;
    const word = this.match(/-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y);
    if (word === null) throw this.fault('a value');
    return JSON.parse(word) as unknown;
  }

  private list(depth: number): unknown[] {
    const items: unknown[] = [];
    this.expect('[', 'a list');
    if (this.accept(']')) return items;
    do items.push(this.value(depth + 1));
    while (this.accept(','));
    this.expect(']', 'a comma or ]');
    return items;
  }

  /** Returns null if no string begins here. */
  private string(): string | null {
    this.skipSpace();
    if (this.text[this.at] !== '"') return null;
    const found = this.match(/"(?:[^"\\\p{Cc}]|[\u007f-\u009f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/uy);
    if (found === null) throw new JsonFault(this.line(), 'the text that begins here has no end, or a character that has to be escaped');
    return JSON.parse(found) as string;
  }

  private accept(token: string): boolean {
    this.skipSpace();
    if (!this.text.startsWith(token, this.at)) return false;
    this.at += token.length;
    return true;
  }

  private expect(token: string, what: string): void {
    if (!this.accept(token)) throw this.fault(what);
  }

  private skipSpace(): void {
    this.match(/[ \t\r\n]+/y);
  }

  private match(pattern: RegExp): string | null {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0] ?? null;
    this.at += found?.length ?? 0;
    return found;
  }

  private fault(expected: string): JsonFault {
    return new JsonFault(this.line(), `there has to be ${expected}`);
  }

  private line(): number {
    const { counted } = this;
    for (let feed = this.text.indexOf('\n', counted.at); feed !== -1 && feed < this.at; feed = this.text.indexOf('\n', counted.at)) {
      counted.at = feed + 1;
      counted.line += 1;
    }
    return counted.line;
  }
}
