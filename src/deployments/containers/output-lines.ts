import { StringDecoder } from 'node:string_decoder';

/** The length of a line that is kept, in characters; the rest of a longer one is dropped. It exceeds what the build log shows. */
const LINE_MAX = 65_536;

/** Assembles the lines of a command's output from its pieces. */
export class OutputLines {
  private readonly decoder = new StringDecoder('utf8');
  private rest = '';

  constructor(private readonly line: (text: string) => void) {}

  take(bytes: Buffer): void {
    const lines = (this.rest + this.decoder.write(bytes)).split('\n');
    this.rest = (lines.pop() ?? '').slice(0, LINE_MAX);
    for (const line of lines) this.line(clean(line));
  }

  /** Passes on a last line without a line end. */
  end(): void {
    const last = this.rest + this.decoder.end();
    if (last !== '') this.line(clean(last));
    this.rest = '';
  }
}

/** Returns the line without its carriage return, and without NULs, which the log can't hold. */
function clean(line: string): string {
  return line.replace(/\r$/, '').replaceAll('\0', '\uFFFD');
}
