import { Module } from '@nestjs/common';

import { AgentsModule } from '../agents/agents.module.ts';
import { MessagesModule } from '../messages/messages.module.ts';
import { TrafficModule } from '../traffic/traffic.module.ts';
import { PassHandshakeHandler } from './handshakes.handlers.ts';
import { WebhookCallers } from './webhook-callers.service.ts';
import { WebhooksController } from './webhooks.controller.ts';
import { Webhooks } from './webhooks.service.ts';
import { WebhookTokens } from './webhook-tokens.service.ts';

@Module({
  imports: [AgentsModule, MessagesModule, TrafficModule],
  controllers: [WebhooksController],
  providers: [PassHandshakeHandler, WebhookCallers, Webhooks, WebhookTokens],
})
export class WebhooksModule {}
