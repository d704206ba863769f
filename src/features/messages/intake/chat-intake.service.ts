import { Injectable } from '@nestjs/common';
import { v5 as uuidv5 } from 'uuid';

import { Agents } from '../../agents/services.ts';
import { Config } from '../../../kernel/config/config.ts';
import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import { ContainerRuntime } from '../../../runtime/runtime.ts';
import type { Chat } from './chat.ts';
import { MessageRate } from './message-rate.ts';
import { TEXT_BYTES_MAX, type Conversation } from '../conversations/conversations.decider.ts';
import { Conversations } from '../conversations/conversations.service.ts';

/** The time that a sender waits in addition to the reply timeout, in ms: for a wake, and for earlier messages. */
const QUEUE_ALLOWANCE_MS = 5_000;

/** Stores a chat message in the log, or refuses it before anything is stored. */
@Injectable()
export class ChatIntake {
  constructor(
    private readonly agents: Agents,
    private readonly conversations: Conversations,
    private readonly rate: MessageRate,
    private readonly runtime: ContainerRuntime,
    private readonly config: Config,
  ) {}

  /** Returns the time (ISO 8601) until which the sender of a message that is sent now will wait. */
  replyBy(): string {
    return new Date(Date.now() + this.config.replyTimeoutSeconds * 1000 + QUEUE_ALLOWANCE_MS).toISOString();
  }

  /**
   * Stores the message. When this resolves, the message is on disk; the result says whether the agent was active. Empties `chat.text`,
   * because the text need not stay in memory while the caller waits for the reply. Throws `invalid_request`, `rate_limited`,
   * `agent_not_found`, `conversation_not_found`, `runtime_unavailable`, `agent_unavailable`.
   */
  async accept(chat: Chat, replyBy: string): Promise<{ wasActive: boolean }> {
    if (Buffer.byteLength(chat.text) > TEXT_BYTES_MAX) throw textTooLong();
    const takeBack = this.rate.consume(chat.accountId, 'chat', chat.ids.messageId);
    try {
      const wasActive = await this.requireReady(chat);
      await this.append(chat, replyBy);
      return { wasActive };
    } catch (error) {
      takeBack();
      throw error;
    }
  }

  /** Checks that the agent can receive the message, and starts waking it if it sleeps, without waiting. Returns whether it was active. */
  private async requireReady({ accountId, agentId, ids, begins, context }: Chat): Promise<boolean> {
    const [{ status }, conversation] = await Promise.all([
      this.agents.load(agentId, accountId, context.seenUpTo),
      begins ? null : this.conversations.load(ids.conversationId, context.seenUpTo),
    ]);
    if (conversation !== null) requireConversation(conversation.state, agentId);
    if (!(await this.runtime.available())) throw engineUnavailable();
    if (status === 'active') return true;
    const { startTimeoutSeconds } = this.config;
    const wake = { type: 'WakeAgent' as const, accountId, trigger: 'chat', startTimeoutSeconds };
    const { before } = await this.agents.execute(agentId, wake, context);
    return before?.status === 'active';
  }

  private async append(chat: Chat, replyBy: string): Promise<void> {
    const { agentId, accountId, context, begins } = chat;
    const { conversationId, messageId } = chat.ids;
    const text = await this.conversations.seal(agentId, messageId, 'text', chat.text);
    chat.text = '';
    const draws = { caller: null, limit: 0, chats: [] };
    const accept = {
      type: 'AcceptMessage' as const,
      agentId,
      accountId,
      messageId,
      channel: 'chat' as const,
      text,
      replyBy,
      begins,
      draws,
    };
    // Attempts under one Idempotency-Key append the same event, so that the message is accepted only once.
    const eventId = (event: { type: string }) => uuidv5(event.type, messageId);
    await this.conversations.execute(conversationId, accept, context, chat.attempt === null ? {} : { eventId });
  }
}

/** Returns the conversation if it belongs to the agent. Throws `conversation_not_found`. */
export function requireConversation(state: Conversation | null, agentId: string): Conversation {
  if (state === null || state.agentId !== agentId) throw new ProblemError('conversation_not_found', 'The agent has no such conversation.');
  return state;
}

function engineUnavailable(): ProblemError {
  return new ProblemError('runtime_unavailable', 'The container engine does not answer; the message was not taken.');
}

function textTooLong(): ProblemError {
  const message = `must be at most ${TEXT_BYTES_MAX} bytes of UTF-8`;
  return new ProblemError('invalid_request', 'The message is too long.', { errors: [{ field: 'message', message }] });
}
