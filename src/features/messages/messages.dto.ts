import { Allow, IsOptional, IsString, IsUUID } from 'class-validator';

import { AgentIdMember } from '../agents/index.ts';
import { Length } from '../../http/requests/validation.ts';
import type { Reply } from './messages.commands.ts';

export class ConversationPathDto {
  @AgentIdMember()
  agentId: string;

  @Allow()
  conversationId: string;
}

export class ChatDto {
  /** The text of the message. */
  @IsString()
  @Length(1, 200_000)
  message: string;

  /** The conversation that the message continues. If absent, a new one begins. */
  @IsOptional()
  @IsUUID()
  conversation_id?: string;
}

export class ChatResponseDto {
  /** The agent's reply. */
  response: string;
  conversation_id: string;
  message_id: string;
}

export function toChatResponse({ response, conversationId, messageId }: Reply): ChatResponseDto {
  return { response, conversation_id: conversationId, message_id: messageId };
}

export interface ConversationView {
  id: string;
  channel: string;
  messages: number;
  createdAt: string;
  updatedAt: string;
}
