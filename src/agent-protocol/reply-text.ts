import { AgentErrorResponse } from './protocol.ts';

/** The largest reply, in bytes. */
export const REPLY_BYTES_MAX = 1_024 * 1_024;
const ERROR_TEXT_MAX = 300;

/** Replaces NUL and lone surrogates, which agents may send and PostgreSQL refuses. */
export function wellFormed(text: string): string {
  return text.replace(/\0|\p{Surrogate}/gu, '\uFFFD');
}

/** Returns the start of an agent's text for an error message: one line without lone surrogates. */
export function shortened(text: string): string {
  return wellFormed(text.slice(0, ERROR_TEXT_MAX)).replace(/\s+/g, ' ').trim();
}

/** Collects a reply that arrives in pieces, and passes the pieces on. They are well-formed, and together they are the reply. */
export class ReplyText {
  private text = '';
  private bytes = 0;
  /** A high surrogate at the end of a piece, whose low surrogate starts the next piece. */
  private pendingSurrogate = '';

  constructor(private readonly onText?: (piece: string) => void) {}

  get isEmpty(): boolean {
    return this.text === '';
  }

  /** Throws `AgentErrorResponse` once the reply is larger than 1 MiB. */
  add(piece: string): void {
    this.bytes += Buffer.byteLength(piece);
    if (this.bytes > REPLY_BYTES_MAX) throw new AgentErrorResponse(200, 'the reply is larger than 1 MiB');
    const all = this.pendingSurrogate + piece;
    const whole = /[\uD800-\uDBFF]$/.test(all) ? all.length - 1 : all.length;
    this.pendingSurrogate = all.slice(whole);
    this.emit(all.slice(0, whole));
  }

  /** Returns the whole reply. */
  end(): string {
    this.emit(this.pendingSurrogate);
    this.pendingSurrogate = '';
    return this.text;
  }

  private emit(piece: string): void {
    if (piece === '') return;
    const passed = wellFormed(piece);
    this.text += passed;
    this.onText?.(passed);
  }
}

/** Returns the JSON in the data of an event. Throws `AgentErrorResponse` if it is not JSON. */
export function parsedEvent(data: string): unknown {
  try {
    return JSON.parse(data) as unknown;
  } catch {
    throw new AgentErrorResponse(200, `an event is no JSON: ${shortened(data)}`);
  }
}
