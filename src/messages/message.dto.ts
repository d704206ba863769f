import { IsOptional, IsString, IsUUID } from 'class-validator';

import { Length } from '../platform/http/validation.ts';

export class ChatRequest {
  /** What the agent is told. */
  @IsString()
  @Length(1, 200_000)
  message: string;

  /** Continues that thread; a new one begins where it is absent. */
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
