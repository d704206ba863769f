import { v5 as uuidv5 } from 'uuid';

import type { IdempotentAttempt } from '../../../http/requests/request.ts';
import type { CommandContext } from '../../../kernel/context/command-context.ts';
import { newId } from '../../../kernel/ids.ts';

/** A message that is about to be accepted. */
export interface Chat {
  readonly context: CommandContext;
  readonly accountId: string;
  readonly agentId: string;
  /** The text; empty once it is stored. */
  text: string;
  /** The ids of the message and its conversation, by `chatIds`. */
  readonly ids: ChatIds;
  /** True if the message begins its conversation. */
  readonly begins: boolean;
  /** The try under the caller's `Idempotency-Key`; null if there is none. */
  readonly attempt: IdempotentAttempt | null;
}

export interface ChatIds {
  conversationId: string;
  messageId: string;
}

/** Returns the ids of a message and its conversation, which are the same for every try under one Idempotency-Key. */
export function chatIds(attempt: IdempotentAttempt | null, conversationId: string | null): ChatIds {
  const make = (what: string) => (attempt === null ? newId() : uuidv5(what, attempt.id));
  return { conversationId: conversationId ?? make('conversation'), messageId: make('message') };
}
