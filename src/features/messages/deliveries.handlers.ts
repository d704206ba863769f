import { CommandHandler, type ICommandHandler, QueryBus } from '@nestjs/cqrs';

import { Agents } from '../agents/services.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { Conversations } from './conversations/conversations.service.ts';
import { FindDelivery } from './conversations/deliveries.queries.ts';
import { RedeliverMessage } from './messages.commands.ts';

@CommandHandler(RedeliverMessage)
export class RedeliverMessageHandler implements ICommandHandler<RedeliverMessage> {
  constructor(
    private readonly agents: Agents,
    private readonly conversations: Conversations,
    private readonly queries: QueryBus,
  ) {}

  async execute({ context, accountId, agentId, messageId }: RedeliverMessage): Promise<void> {
    await this.agents.load(agentId, accountId, context.seenUpTo);
    const delivery = await this.queries.execute(new FindDelivery(messageId));
    if (delivery === null || delivery.agent_id !== agentId) throw new ProblemError('not_found', 'The agent has no such delivery.');
    const { conversation_id: conversationId, channel, revision, bytes } = delivery;
    await this.conversations.execute(conversationId, { type: 'RequeueMessage', messageId, channel, revision, bytes }, context);
  }
}
