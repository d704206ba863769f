import { Allow, IsOptional, IsString, IsUUID } from 'class-validator';

import { AgentIdMember } from '../agents/index.ts';
import { Length } from '../platform/http/requests/validation.ts';

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

export interface ChatResponse {
  response: string;
  conversation_id: string;
  message_id: string;
}

export interface ConversationView {
  id: string;
  channel: string;
  messages: number;
  createdAt: string;
  updatedAt: string;
}
