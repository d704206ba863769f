import { Module } from '@nestjs/common';
import { AgentsModule } from '../agents/agents.module.ts';
import { Projections } from '../../eventsourcing/projections/projections.ts';
import { MessageBudgets } from './intake/message-budgets.ts';
import { ChatStreams } from './chat-streams.service.ts';
import { ChatIntake } from './intake/chat-intake.service.ts';
import { MessageIntake } from './intake/message-intake.service.ts';
import { MessageRate } from './intake/message-rate.ts';
import {
  conversationsProjection,
  LatestConversationHandler,
  ListConversationsHandler,
  ListWaitingConversationsHandler,
} from './conversations/conversations.projection.ts';
import { Conversations } from './conversations/conversations.service.ts';
import { deliveriesProjection, FindDeliveryHandler, ListDeliveriesHandler } from './conversations/deliveries.projection.ts';
import { DeliveriesController } from './deliveries.controller.ts';
import { RedeliverMessageHandler } from './deliveries.handlers.ts';
import { AgentEndpoints } from './delivery/agent-endpoints.service.ts';
import { MessageDelivery } from './delivery/message-delivery.service.ts';
import { MessagesController } from './messages.controller.ts';
import { ListMessagesHandler, SendChatMessageHandler } from './messages.handlers.ts';
import { ReplyReaders } from './delivery/reply-readers.ts';
import { MessagesSaga } from './delivery/messages.saga.ts';
import { Threads } from './conversations/threads.ts';

@Module({
  imports: [AgentsModule],
  controllers: [MessagesController, DeliveriesController],
  providers: [
    AgentEndpoints,
    MessageBudgets,
    ChatIntake,
    ChatStreams,
    MessageIntake,
    MessageRate,
    Conversations,
    MessageDelivery,
    MessagesSaga,
    ReplyReaders,
    Threads,
    SendChatMessageHandler,
    ListMessagesHandler,
    FindDeliveryHandler,
    ListDeliveriesHandler,
    RedeliverMessageHandler,
    LatestConversationHandler,
    ListConversationsHandler,
    ListWaitingConversationsHandler,
  ],
  exports: [MessageBudgets, MessageIntake],
})
export class MessagesModule {
  constructor(projections: Projections) {
    projections.register(conversationsProjection);
    projections.register(deliveriesProjection);
  }
}
