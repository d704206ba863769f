import type { ServerSentEvent } from '../../http/server/response-streams.ts';
import type { Problem } from '../../http/responses/problems.ts';
import type { ChatResponseDto } from './messages.dto.ts';

/** The most characters that wait for a slow reader. The rest of the text is in the last event only. */
const WAITING_LENGTH_MAX = 64 * 1_024;

/**
 * The events of one reply: `accepted`, `delta` with each piece of the text, then `reply` or `error`. Pieces that arrive faster than they
 * are read are joined. The deltas together are a prefix of the reply.
 */
export class ReplyEvents implements AsyncIterable<ServerSentEvent> {
  private waiting = '';
  private hasText = false;
  private isBehind = false;
  private last: ServerSentEvent | null = null;
  private isOver = false;
  private wake = () => {};

  constructor(private readonly ids: { conversation_id: string; message_id: string }) {}

  add(piece: string): void {
    if (this.isOver || this.isBehind) return;
    if (this.waiting.length + piece.length > WAITING_LENGTH_MAX) {
      this.isBehind = true;
      return;
    }
    this.waiting += piece;
    this.hasText = true;
    this.wake();
  }

  /** Ends the events with the reply. A reply that did not arrive in pieces is sent as one delta. */
  end(reply: ChatResponseDto): void {
    if (!this.hasText && !this.isBehind && !this.isOver) this.waiting = reply.response;
    this.finish({ event: 'reply', data: reply });
  }

  fail(problem: Problem): void {
    this.finish({ event: 'error', data: problem });
  }

  /** Ends the events immediately, because the reader has disconnected. */
  drop(): void {
    this.waiting = '';
    this.finish(null);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ServerSentEvent> {
    yield { event: 'accepted', data: this.ids };
    for (;;) {
      const text = this.waiting;
      this.waiting = '';
      if (text !== '') yield { event: 'delta', data: { text } };
      else if (this.isOver) break;
      else await new Promise<void>((resolve) => (this.wake = resolve));
    }
    if (this.last !== null) yield this.last;
  }

  private finish(last: ServerSentEvent | null): void {
    if (this.isOver) this.last = null;
    else this.last = last;
    this.isOver = true;
    this.wake();
  }
}
