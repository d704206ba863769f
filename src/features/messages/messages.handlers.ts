import { CommandHandler, type ICommandHandler, type IQueryHandler, QueryHandler } from '@nestjs/cqrs';

import { Agents } from '../agents/services.ts';
import { EventWaits } from '../../eventsourcing/log/event-waits.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { ChatIntake, requireConversation } from './intake/chat-intake.service.ts';
import type { Chat } from './intake/chat.ts';
import { isOutcomeOf, type Outcome } from './conversations/conversations.events.ts';
import { Conversations, conversationStream } from './conversations/conversations.service.ts';
import { Threads, type ThreadPage } from './conversations/threads.ts';
import { type Reply, SendChatMessage } from './messages.commands.ts';
import { ListMessages } from './messages.queries.ts';

/** The record of the outcome may arrive this long after the end of the sender's wait, in ms. */
const RECORD_GRACE_MS = 1_000;

@CommandHandler(SendChatMessage)
export class SendChatMessageHandler implements ICommandHandler<SendChatMessage> {
  constructor(
    private readonly intake: ChatIntake,
    private readonly agents: Agents,
    private readonly conversations: Conversations,
    private readonly threads: Threads,
    private readonly waits: EventWaits,
  ) {}

  async execute({ chat, onAccepted }: SendChatMessage): Promise<Reply> {
    const { ids } = chat;
    using watch = this.waits.watch(conversationStream(ids.conversationId));
    const replyBy = this.intake.replyBy();
    let outcome = await this.outcomeOfEarlierAttempt(chat);
    const { wasActive } = outcome === null ? await this.intake.accept(chat, replyBy) : { wasActive: true };
    onAccepted(!wasActive);
    if (outcome === null || outcome === 'pending')
      outcome = await watch.next(
        (stored) => (isOutcomeOf(stored, ids.messageId) ? stored : undefined),
        Date.parse(replyBy) - Date.now() + RECORD_GRACE_MS,
      );
    return { response: await this.responseOf(chat.agentId, ids.messageId, outcome), ...ids };
  }

  /** Returns the outcome of the message if an earlier attempt under the same Idempotency-Key was accepted; null if none was. */
  private async outcomeOfEarlierAttempt({ attempt, agentId, accountId, ids }: Chat): Promise<Outcome | 'pending' | null> {
    if (attempt === null || attempt.isFirst) return null;
    await this.agents.load(agentId, accountId);
    return this.threads.outcomeOf(ids.conversationId, ids.messageId);
  }

  private async responseOf(agentId: string, messageId: string, outcome: Outcome | null): Promise<string> {
    if (outcome?.type === 'MessageDelivered') {
      const response = await this.conversations.open(agentId, messageId, 'reply', outcome.data.reply);
      if (response === null) throw new ProblemError('agent_not_found', 'There is no such agent.');
      return response;
    }
    const members = { message_id: messageId };
    if (outcome !== null) throw new ProblemError(outcome.data.code, outcome.data.reason, { members });
    throw new ProblemError('reply_timeout', 'The agent did not reply in time; the message stays in its history.', { members });
  }
}

@QueryHandler(ListMessages)
export class ListMessagesHandler implements IQueryHandler<ListMessages> {
  constructor(
    private readonly agents: Agents,
    private readonly conversations: Conversations,
    private readonly threads: Threads,
  ) {}

  async execute({ accountId, agentId, conversationId, limit, before }: ListMessages): Promise<ThreadPage> {
    const [{ state }] = await Promise.all([this.conversations.load(conversationId), this.agents.load(agentId, accountId)]);
    const conversation = requireConversation(state, agentId);
    return this.threads.page(conversationId, conversation, before, limit);
  }
}
