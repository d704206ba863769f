import { Controller, Get, HttpCode, Post } from '@nestjs/common';
import { CommandBus } from '@nestjs/cqrs';
import { ApiHeader, ApiParam, ApiQuery } from '@nestjs/swagger';

import { AgentId } from '../agents/index.ts';
import { Config } from '../../kernel/config/config.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { RequireInvoke, RequireScope } from '../../http/auth/access.ts';
import { TOKEN_HEADER } from '../../http/auth/credential.ts';
import { type RequestContext, CurrentRequest } from '../../http/server/request-context.ts';
import { Idempotent } from '../../http/idempotency/idempotency.interceptor.ts';
import { RawBody } from '../../http/server/body.ts';
import { PassHandshake } from './handshakes.commands.ts';
import { isUrlVerification } from './url-verification.ts';
import type { AcceptedWebhook, WebhookTokenView } from './webhooks.dto.ts';
import { Webhooks } from './webhooks.service.ts';
import { WebhookTokens } from './webhook-tokens.service.ts';

/** Calls without a token are deprecated since the first of these times, and may end at the second (RFC 9745, RFC 8594). */
const DEPRECATED_AT = new Date('2026-11-22T00:00:00Z');
const SUNSET_AT = new Date('2027-11-22T00:00:00Z');

@Controller('api/webhooks/:agentId')
export class WebhooksController {
  constructor(
    private readonly webhooks: Webhooks,
    private readonly tokens: WebhookTokens,
    private readonly commands: CommandBus,
    private readonly config: Config,
  ) {}

  /**
   * Passes the handshake of a sender on to an agent with a `webhook_handshake`, and the agent's response back, within 10 s. It wakes a sleeping
   * agent. Any other agent takes no GET and no HEAD.
   */
  @Get()
  @RequireInvoke()
  @ApiParam({ name: 'agentId', type: String })
  @ApiHeader({ name: TOKEN_HEADER, required: false, description: "The agent's token." })
  @ApiQuery({ name: 'token', required: false, type: String, description: "The agent's token, for senders that can't set a header." })
  async handshake(@CurrentRequest() call: RequestContext): Promise<void> {
    if (await this.commands.execute(new PassHandshake(call, Buffer.alloc(0)))) return;
    call.setHeader('allow', 'POST');
    throw new ProblemError('method_not_allowed', 'The agent answers no handshakes, so the address accepts only the method POST.');
  }

  /**
   * Accepts a webhook of any media type, at most 1 MiB, for the agent, and answers immediately. It is delivered in the background, in
   * order, and wakes a sleeping agent. A repeat of the same delivery is not delivered twice. The `url_verification` of Slack is a handshake
   * for an agent with a `webhook_handshake`, which answers it at once.
   */
  @Post()
  @HttpCode(202)
  @RequireInvoke()
  @RawBody('buffer')
  @Idempotent({ sealedFor: 'agentId' })
  @ApiParam({ name: 'agentId', type: String })
  @ApiHeader({ name: TOKEN_HEADER, required: false, description: "The agent's token." })
  @ApiQuery({ name: 'token', required: false, type: String, description: "The agent's token, for senders that can't set a header." })
  async invoke(@CurrentRequest() call: RequestContext): Promise<AcceptedWebhook | undefined> {
    const { context, caller, headers, rawBody: body, seed } = call;
    if (isUrlVerification(body) && (await this.commands.execute(new PassHandshake(call, body)))) return undefined;
    const url = (this.config.baseUrl ?? call.origin) + call.urls.asked;
    const message_id = await this.webhooks.accept({ context, caller, headers, url, body, seed });
    if (caller.webhook?.hasToken !== true) {
      call.setHeader('deprecation', `@${DEPRECATED_AT.getTime() / 1_000}`);
      call.setHeader('sunset', SUNSET_AT.toUTCString());
    }
    return { accepted: true, message_id };
  }

  /** Shows the token with which senders reach the agent, and the address to give to them. The first request issues the token. */
  @Get('token')
  @RequireScope('manage')
  async token(@AgentId() agentId: string, @CurrentRequest() call: RequestContext): Promise<WebhookTokenView> {
    const { context, accountId } = call;
    return this.view(agentId, await this.tokens.show({ context, accountId, agentId }), call);
  }

  /** Replaces the token; the old one ends immediately. */
  @Post('token/rotate')
  @HttpCode(200)
  @RequireScope('manage')
  @Idempotent({ sealedFor: 'agentId' })
  async rotate(@AgentId() agentId: string, @CurrentRequest() call: RequestContext): Promise<WebhookTokenView> {
    const { context, accountId, seed } = call;
    return this.view(agentId, await this.tokens.rotate({ context, accountId, agentId }, seed), call);
  }

  private view(agentId: string, token: string, call: RequestContext): WebhookTokenView {
    call.setHeader('cache-control', 'no-store');
    const url = `${this.config.baseUrl ?? call.origin}/api/webhooks/${agentId}?token=${token}`;
    return { token, url, header: 'X-Service-Webhook-Token' };
  }
}
