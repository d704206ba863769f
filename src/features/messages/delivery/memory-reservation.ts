import type { ExchangeMemory } from '../../../agent-protocol/protocol.ts';
import type { FairLimiter } from '../../../kernel/limits/fair-limiter.ts';

/** The memory budget of one message in delivery, and of the reply until it is recorded. Must be disposed of then. */
export class MemoryReservation implements ExchangeMemory, Disposable {
  /** The controller that ends the reply's wait for room; null until the reply asks for room. */
  private waiting: AbortController | null = null;
  private isOver = false;
  private releaseRequestBytes: (() => void) | null = null;
  private releaseReplyBytes: (() => void) | null = null;

  constructor(
    private readonly bytes: FairLimiter,
    private readonly account: string,
  ) {}

  /** Resolves when the message may be read. Rejects with the signal's reason if the signal aborts first. */
  async reserveRequest(bytes: number, signal: AbortSignal): Promise<void> {
    this.releaseRequestBytes = await this.bytes.acquire({ account: this.account }, signal, bytes);
  }

  releaseRequest(): void {
    this.releaseRequestBytes?.();
    this.releaseRequestBytes = null;
  }

  async reserveReply(bytes: number): Promise<void> {
    this.releaseReply();
    this.waiting = new AbortController();
    if (this.isOver) this.waiting.abort(new Error('the exchange is over'));
    this.releaseReplyBytes = await this.bytes.acquire({ account: this.account }, this.waiting.signal, bytes);
    if (this.isOver) this.releaseReply();
  }

  /** Gives back the room of a response that is not kept. */
  releaseReply(): void {
    this.releaseReplyBytes?.();
    this.releaseReplyBytes = null;
  }

  [Symbol.dispose](): void {
    this.isOver = true;
    this.waiting?.abort(new Error('the exchange is over'));
    this.releaseRequest();
    this.releaseReply();
  }
}
