import { Command } from '@nestjs/cqrs';

import type { CommandContext } from '../../kernel/context/command-context.ts';
import type { Chat } from './intake/chat.ts';

export interface Reply {
  response: string;
  conversationId: string;
  messageId: string;
}

/** Delivers a message again after its delivery has ended. Throws `agent_not_found`, `not_found`, `rate_limited`. */
export class RedeliverMessage extends Command<void> {
  constructor(
    readonly context: CommandContext,
    readonly accountId: string,
    readonly agentId: string,
    readonly messageId: string,
  ) {
    super();
  }
}

/**
 * Sends the agent a message and waits for its reply. `onAccepted` is called once the message is stored, or if it was stored before. `woken`
 * is true if the agent had to be woken.
 */
export class SendChatMessage extends Command<Reply> {
  constructor(
    readonly chat: Chat,
    readonly onAccepted: (woken: boolean) => void,
  ) {
    super();
  }
}
