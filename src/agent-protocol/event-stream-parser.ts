import { StringDecoder } from 'node:string_decoder';

/** An event of a `text/event-stream` that was received. */
export interface ReceivedEvent {
  /** The event's name; `message` if it has none. */
  event: string;
  data: string;
}

/** Parses a `text/event-stream` from pieces of any size. At most one event is in memory. */
export class EventStreamParser {
  private readonly decoder = new StringDecoder('utf8');
  /** The pieces of an incomplete line. They are joined at its end, so that many small pieces cost no more than a large one. */
  private line: string[] = [];
  private isAfterReturn = false;
  private event = '';
  private data: string[] = [];
  private length = 0;
  /** The number of lines so far. A line costs about the same however short it is. */
  lines = 0;

  /** `onEvent` is called with each event, and `onTooLong` once an event has more than `lengthMax` characters. */
  constructor(
    private readonly lengthMax: number,
    private readonly onEvent: (event: ReceivedEvent) => void,
    private readonly onTooLong: () => void,
  ) {}

  push(chunk: Buffer): void {
    const decoded = this.decoder.write(chunk);
    if (decoded === '') return;
    const text = this.isAfterReturn && decoded.startsWith('\n') ? decoded.slice(1) : decoded;
    this.isAfterReturn = decoded.endsWith('\r');
    const pieces = text.split(/\r\n|\r|\n/);
    for (const [index, piece] of pieces.entries()) {
      if (piece !== '') this.line.push(piece);
      this.length += piece.length;
      if (this.length > this.lengthMax) return this.onTooLong();
      if (index < pieces.length - 1) this.endLine();
    }
  }

  private endLine(): void {
    const line = this.line.join('');
    this.lines += 1;
    this.line = [];
    if (line === '') return this.endEvent();
    const colon = line.indexOf(':');
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (name === 'event') this.event = value;
    else if (name === 'data') this.data.push(value);
  }

  private endEvent(): void {
    const { event, data } = this;
    this.event = '';
    this.data = [];
    this.length = 0;
    if (data.length > 0) this.onEvent({ event: event === '' ? 'message' : event, data: data.join('\n') });
  }
}
