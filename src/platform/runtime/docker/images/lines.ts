/** Assembles whole lines from pieces. */
export class Lines {
  private rest = '';
  private readonly log: (line: string) => void;

  constructor(log: (line: string) => void) {
    this.log = log;
  }

  take(piece: string): void {
    const lines = (this.rest + piece).split(/\r?\n/);
    this.rest = (lines.pop() ?? '').slice(-16_384);
    for (const line of lines) if (line !== '') this.log(line);
  }

  end(): void {
    if (this.rest !== '') this.log(this.rest);
  }
}
