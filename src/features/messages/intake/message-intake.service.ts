import { Injectable } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';
import { v5 as uuidv5 } from 'uuid';

import type { CommandContext } from '../../../kernel/context/command-context.ts';
import { newId } from '../../../kernel/ids.ts';
import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import type { ConversationCommand } from '../conversations/conversations.decider.ts';
import { LatestConversation } from '../conversations/conversations.queries.ts';
import { Conversations } from '../conversations/conversations.service.ts';
import type { Draws } from '../conversations/message-budget.rules.ts';
import { headBytes, writeContent, type MessageContent } from '../conversations/message-content.ts';
import { countedBytes } from '../conversations/tokenless-bytes.rules.ts';
import { tokenlessConversation, webhookConversation } from '../conversations/webhook-lanes.ts';
import { MessageBudgets } from './message-budgets.ts';
import { MessageRate } from './message-rate.ts';

/** A message whose sender does not wait for a reply, to an agent that exists and belongs to the account. */
interface MessageSubmission {
  readonly context: CommandContext;
  readonly accountId: string;
  readonly agentId: string;
  readonly messageId: string;
  /** The value is true if a repeat of the message has the same id and is to be accepted only once. */
  readonly isRepeatable: boolean;
}

export interface WebhookSubmission extends MessageSubmission {
  /** The caller on whose budget the message draws. */
  readonly caller: string;
  /** The value is true if the caller brought the agent's token. */
  readonly hasToken: boolean;
  readonly content: Extract<MessageContent, { channel: 'webhook' }>;
}

/** A handshake of a sender with the agent's token, which the agent answers at once. */
export interface HandshakeSubmission extends Omit<MessageSubmission, 'messageId' | 'isRepeatable'> {
  /** The caller on whose budget the handshake draws. */
  readonly caller: string;
  readonly method: string;
}

export interface AttachmentsSubmission extends MessageSubmission {
  readonly content: Extract<MessageContent, { channel: 'attachment' }>;
}

/** A message about files draws on the budget of the agent, like a chat, and is not refused by it. */
const DRAWS_ON_THE_AGENT: Draws = { caller: null, limit: 0, chats: [] };

/** Stores messages whose senders do not wait. When a method resolves, the message is stored durably and will be delivered at least once. */
@Injectable()
export class MessageIntake {
  constructor(
    private readonly conversations: Conversations,
    private readonly budgets: MessageBudgets,
    private readonly rate: MessageRate,
    private readonly queries: QueryBus,
  ) {}

  /**
   * Stores a webhook in the conversation of the agent's webhooks, so that they are delivered in order. Those without the agent's token are
   * a conversation of their own, with smaller limits. Throws `rate_limited`.
   */
  async webhook(webhook: WebhookSubmission): Promise<void> {
    const { accountId, agentId, messageId, caller, hasToken } = webhook;
    const takeBack = this.rate.consume(accountId, hasToken ? 'webhook' : 'tokenless', messageId);
    const [conversationId, draws] = hasToken
      ? [webhookConversation(agentId), this.budgets.drawsOf(agentId, caller)]
      : [tokenlessConversation(agentId), this.budgets.tokenlessDrawsOf(agentId, caller, sizeOf(webhook))];
    try {
      if (!(await this.append(webhook, conversationId, draws))) takeBack();
    } catch (error) {
      takeBack();
      if (error instanceof ProblemError) this.budgets.rememberRefusal(agentId, draws, error);
      throw error;
    }
  }

  /** Records a handshake, which counts as a webhook and draws on the budget of its sender. Throws `rate_limited`. */
  async handshake({ context, accountId, agentId, caller, method }: HandshakeSubmission): Promise<void> {
    const draws = { ...this.budgets.drawsOf(agentId, caller), caller };
    const accept = { type: 'AcceptHandshake' as const, agentId, accountId, method, draws };
    const takeBack = this.rate.consume(accountId, 'webhook', context.requestId ?? newId());
    try {
      await this.conversations.execute(webhookConversation(agentId), accept, context);
    } catch (error) {
      takeBack();
      if (error instanceof ProblemError) this.budgets.rememberRefusal(agentId, draws, error);
      throw error;
    }
  }

  /**
   * Stores a message about files in the agent's most recent conversation, or starts one. Returns the conversation's id. Throws
   * `rate_limited`.
   */
  async attachments(attachments: AttachmentsSubmission): Promise<string> {
    const { agentId, messageId } = attachments;
    const latest = await this.queries.execute(new LatestConversation(agentId));
    const conversationId = latest ?? uuidv5('conversation', messageId);
    await this.append(attachments, conversationId, DRAWS_ON_THE_AGENT);
    return conversationId;
  }

  /** Returns false if the message was accepted before. */
  private async append(
    { content, ...posted }: WebhookSubmission | AttachmentsSubmission,
    conversationId: string,
    draws: Draws,
  ): Promise<boolean> {
    const { context, accountId, agentId, messageId } = posted;
    const [first = '', ...others] = writeContent(content);
    const common = { agentId, accountId, messageId, channel: content.channel, begins: true, draws };
    const parts = { revisions: [] as number[], bytes: 0 };
    for (const [index, text] of others.entries()) {
      const part = index + 1;
      const sealed = await this.conversations.seal(agentId, messageId, `part ${part}`, text);
      const { revision } = await this.conversations.execute(conversationId, { ...common, type: 'StorePart', part, text: sealed }, context);
      parts.revisions.push(revision);
      parts.bytes += sealed.ct.length;
    }
    const accept: ConversationCommand = {
      ...common,
      type: 'AcceptMessage',
      text: await this.conversations.seal(agentId, messageId, 'text', first),
      replyBy: null,
      ...(others.length === 0 ? {} : { parts }),
    };
    const eventId = (event: { type: string }) => uuidv5(event.type, messageId);
    const { events } = await this.conversations.execute(conversationId, accept, context, posted.isRepeatable ? { eventId } : {});
    return events.length > 0;
  }
}

function sizeOf({ content }: WebhookSubmission): number {
  return countedBytes(Buffer.byteLength(content.body), headBytes(content));
}
