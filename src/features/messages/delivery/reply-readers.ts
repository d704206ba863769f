import { Injectable } from '@nestjs/common';

type OnText = (piece: string) => void;

/** The callers of this process that read replies as they arrive. The limits on open streams bound their number. */
@Injectable()
export class ReplyReaders {
  private readonly byMessage = new Map<string, Set<OnText>>();

  /**
   * Passes on the text of the reply to the message as it comes, if this process delivers the message and the agent's protocol can. Returns
   * the function that ends that.
   */
  add(messageId: string, onText: OnText): () => void {
    const readers = this.byMessage.get(messageId) ?? new Set();
    this.byMessage.set(messageId, readers.add(onText));
    return () => {
      readers.delete(onText);
      if (readers.size === 0 && this.byMessage.get(messageId) === readers) this.byMessage.delete(messageId);
    };
  }

  /** Returns a listener that passes the pieces of a reply on to its readers; undefined if it has none at the moment. */
  listenerOf(messageId: string): OnText | undefined {
    if (!this.byMessage.has(messageId)) return undefined;
    return (piece) => this.byMessage.get(messageId)?.forEach((onText) => onText(piece));
  }
}
