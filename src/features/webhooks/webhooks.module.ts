import { Module } from '@nestjs/common';

import { AgentsModule } from '../agents/agents.module.ts';
import { MessagesModule } from '../messages/messages.module.ts';
import { WebhookCallers } from './webhook-callers.service.ts';
import { WebhooksController } from './webhooks.controller.ts';
import { Webhooks } from './webhooks.service.ts';
import { WebhookTokens } from './webhook-tokens.service.ts';

@Module({
  imports: [AgentsModule, MessagesModule],
  controllers: [WebhooksController],
  providers: [WebhookCallers, Webhooks, WebhookTokens],
})
export class WebhooksModule {}
