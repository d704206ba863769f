import { CommandHandler, type ICommandHandler } from '@nestjs/cqrs';

import { Agents, ReleaseRuns } from '../agents/services.ts';
import { MessageIntake } from '../messages/services.ts';
import { AgentExchanges } from '../traffic/services.ts';
import { calledUrl } from '../../agent-protocol/sender-headers.ts';
import type { Caller } from '../../kernel/context/caller.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { PassHandshake } from './handshakes.commands.ts';

/** The time within which a handshake is answered, the wake of the agent included, in ms. Senders wait for less than that. */
const ANSWER_MS_MAX = 10_000;
/** The largest response to a handshake, in bytes. Most are a few characters. */
const RESPONSE_BYTES_MAX = 65_536;

@CommandHandler(PassHandshake)
export class PassHandshakeHandler implements ICommandHandler<PassHandshake> {
  constructor(
    private readonly agents: Agents,
    private readonly runs: ReleaseRuns,
    private readonly intake: MessageIntake,
    private readonly exchanges: AgentExchanges,
  ) {}

  async execute({ call, body }: PassHandshake): Promise<boolean> {
    const { caller, context } = call;
    const { id: agentId, accountId } = caller;
    const { release } = await this.agents.load(agentId, accountId, context.seenUpTo);
    const path = this.runs.of(release).webhookHandshake;
    if (path === null) return false;
    await this.intake.handshake({ context, accountId, agentId, caller: budgetOf(caller), method: call.incoming.method ?? '' });
    await this.exchanges.passOn({
      call,
      agentId,
      accountId,
      trigger: 'webhook',
      limit: { ms: ANSWER_MS_MAX, detail: `The agent did not answer the handshake within ${ANSWER_MS_MAX / 1_000} s.` },
      path: withQueryOf(calledUrl(call.urls.asked), path),
      prefix: `/api/webhooks/${agentId}`,
      whole: { body, responseBytesMax: RESPONSE_BYTES_MAX },
    });
    return true;
  }
}

/** Returns the budget on which the sender's handshakes draw, as its webhooks do. Throws `unauthenticated` without the agent's token. */
function budgetOf({ webhook }: Caller): string {
  if (webhook?.hasToken !== true)
    throw new ProblemError('unauthenticated', 'Send the token of the agent with a handshake, as the query parameter token.');
  return webhook.budget;
}

/** Returns the path with the query of the called address, which follows the path's own. */
function withQueryOf(called: string, path: string): string {
  const [, query = ''] = called.split(/\?(.*)/s, 2);
  if (query === '') return path;
  return `${path}${path.includes('?') ? '&' : '?'}${query}`;
}
