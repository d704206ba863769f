import { Module } from '@nestjs/common';
import { AgentsModule } from '../agents/agents.module.ts';
import { TemplatesModule } from '../templates/templates.module.ts';
import { Projections } from '../platform/projections/projections.ts';
import { ChatIntake } from './intake/chat-intake.service.ts';
import { ChatRate } from './intake/chat-rate.ts';
import {
  conversationsProjection,
  ListConversationsHandler,
  ListWaitingConversationsHandler,
} from './conversations/conversations.projection.ts';
import { Conversations } from './conversations/conversations.service.ts';
import { MessageDelivery } from './delivery/message-delivery.service.ts';
import { MessagesController } from './messages.controller.ts';
import { ListMessagesHandler, SendChatMessageHandler } from './messages.handlers.ts';
import { MessagesSaga } from './delivery/messages.saga.ts';
import { Threads } from './conversations/threads.ts';

@Module({
  imports: [AgentsModule, TemplatesModule],
  controllers: [MessagesController],
  providers: [
    ChatIntake,
    ChatRate,
    Conversations,
    MessageDelivery,
    MessagesSaga,
    Threads,
    SendChatMessageHandler,
    ListMessagesHandler,
    ListConversationsHandler,
    ListWaitingConversationsHandler,
  ],
})
export class MessagesModule {
  constructor(projections: Projections) {
    projections.register(conversationsProjection);
  }
}
