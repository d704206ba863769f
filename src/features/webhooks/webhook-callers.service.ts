import { hash, timingSafeEqual } from 'node:crypto';

import { Injectable, type OnModuleInit } from '@nestjs/common';

import { agentIdOf, agentNotFound } from '../agents/index.ts';
import { Agents } from '../agents/services.ts';
import { MessageBudgets } from '../messages/services.ts';
import { Config } from '../../kernel/config/config.ts';
import type { Caller } from '../../kernel/context/caller.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { CredentialVerifier, type Invoke } from '../../http/auth/credential-verifier.ts';
import { networkOf, NETWORK_BITS } from '../../kernel/network/network-of.ts';
import type { WebhookTokenState } from './webhook-tokens.decider.ts';
import { sha256Of, WebhookTokens } from './webhook-tokens.service.ts';

/** Identifies the senders of webhooks by the headers of their requests, before the body is read. */
@Injectable()
export class WebhookCallers implements OnModuleInit {
  constructor(
    private readonly verifier: CredentialVerifier,
    private readonly agents: Agents,
    private readonly tokens: WebhookTokens,
    private readonly budgets: MessageBudgets,
    private readonly config: Config,
  ) {}

  onModuleInit(): void {
    this.verifier.registerInvokes((invoke) => this.callerOf(invoke));
  }

  /** Throws `agent_not_found`, `unauthenticated`, and `rate_limited`. A caller whose budget is known to be used up has a refusal. */
  private async callerOf({ agentId: given, tokens, address, bodyBytes, seenUpTo }: Invoke): Promise<Caller> {
    const agentId = agentIdOf(given);
    // The agent is checked first, so that a stranger's invented id costs the read of one stream, not two.
    const { state: agent } = await this.agents.findForStranger(agentId, address, seenUpTo);
    if (agent === null || agent.status === 'deleting' || agent.status === 'deleted') throw agentNotFound();
    const issued = await this.tokens.loadForStranger(agentId, address, seenUpTo);
    const { accountId } = agent;
    const hasToken = tokens.length > 0;
    if (hasToken) checkTokens(tokens, issued);
    else if (!this.config.tokenlessWebhooks || agent.settings.tokenless_webhooks === false)
      throw budgetRefusal('Send the token of the agent, in X-Service-Webhook-Token or as the query parameter token.');
    // The address itself is in the metadata of the event. A budget only needs to distinguish addresses.
    const budget = hasToken ? `token ${issued?.id}` : `address ${hash('sha256', networkOf(address, NETWORK_BITS)).slice(0, 16)}`;
    const refusal = this.budgets.refusalOf(agentId, budget) ?? (hasToken ? null : this.budgets.refusalOfDay(agentId, bodyBytes));
    return {
      kind: 'webhook',
      id: agentId,
      name: hasToken ? 'webhook with the token' : 'webhook without a token',
      accountId,
      role: 'member',
      scopes: new Set(),
      webhook: { budget, hasToken, ...(refusal === null ? {} : { refusal }) },
    };
  }
}

function checkTokens(tokens: readonly string[], issued: WebhookTokenState): void {
  const expected = Buffer.from(issued?.sha256 ?? sha256Of(''), 'hex');
  const isRight = (token: string) => timingSafeEqual(Buffer.from(sha256Of(token), 'hex'), expected);
  if (issued === null || !tokens.every(isRight)) throw budgetRefusal('The token is not that of the agent.');
}

function budgetRefusal(detail: string): ProblemError {
  return new ProblemError('unauthenticated', detail);
}
