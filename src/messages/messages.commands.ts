import { Command } from '@nestjs/cqrs';

import type { Chat } from './intake/chat-intake.service.ts';

export interface Reply {
  response: string;
  conversationId: string;
  messageId: string;
  /** True if the agent had to be woken for the message. */
  woken: boolean;
}

/** Sends the agent a message and waits for its reply. */
export class SendChatMessage extends Command<Reply> {
  constructor(readonly chat: Chat) {
    super();
  }
}
