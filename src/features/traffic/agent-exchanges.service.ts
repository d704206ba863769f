import { Injectable } from '@nestjs/common';

import { AgentWakes } from '../agents/services.ts';
import { Config } from '../../kernel/config/config.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { AccountCounter, type Limits, type Share, sharesOf } from '../../kernel/limits/account-counter.ts';
import { AgentAddresses } from './agent-addresses.service.ts';
import { exchange, type ExchangeRequest } from './exchange.ts';

/** The part of the open requests that may be one agent's. An account may have a quarter. */
const AGENT_PART = 1 / 10;
const FULL: Record<keyof Limits, string> = { all: 'agents', account: 'the agents of this account', agent: 'this agent' };

/** A request to the port of an agent. */
export interface PassedRequest extends Pick<ExchangeRequest, 'call' | 'path' | 'prefix' | 'whole'> {
  agentId: string;
  accountId: string;
  /** The reason for a wake, as its event says it. */
  trigger: string;
  /** The time within which the agent has to be awake and a whole exchange over; null if the agent is awake. */
  limit: TimeLimit | null;
}

interface TimeLimit {
  ms: number;
  /** The text of the refusal. */
  detail: string;
}

/**
 * Passes requests on to the ports of agents. It wakes the agent first, and keeps it awake until the exchange is over. Open exchanges are bounded
 * in total, for each account and for each agent. One beyond a bound is refused at once, since a WebSocket may keep its place for hours.
 */
@Injectable()
export class AgentExchanges {
  private readonly open: AccountCounter;

  constructor(
    private readonly wakes: AgentWakes,
    private readonly addresses: AgentAddresses,
    private readonly config: Config,
  ) {
    this.open = new AccountCounter(sharesOf(config.trafficMax, { agent: AGENT_PART }));
  }

  /** The number of requests that are open. */
  get openCount(): number {
    return this.open.all;
  }

  /**
   * Passes a request on. Resolves when the exchange is over, however it ended. Before its response has begun, throws `rate_limited`,
   * `agent_unavailable`, `runtime_unavailable`, `agent_failed` and `reply_timeout`.
   */
  async passOn({ call, agentId, accountId, trigger, limit, ...request }: PassedRequest): Promise<void> {
    const { replyTimeoutSeconds, trafficIdleSeconds } = this.config;
    const timeouts = { replyTimeoutMs: replyTimeoutSeconds * 1_000, idleTimeoutMs: trafficIdleSeconds * 1_000 };
    const context = { ...call.context, accountId };
    const leave = this.acquirePlace({ account: accountId, agent: agentId });
    try {
      const gone = call.goneSignal();
      const signal = limit === null ? gone : AbortSignal.any([gone, refusalAfter(limit)]);
      await this.wakes.whileAwake({ sandboxId: agentId, accountId, trigger, context, signal }, (agent, woken) =>
        exchange({ call, endpoint: this.addresses.endpointFor(agentId, agent), woken, signal, ...request, ...timeouts }),
      );
    } finally {
      leave();
    }
  }

  private acquirePlace(share: Share): () => void {
    const lacking = this.open.lacking(share);
    if (lacking === null) return this.open.acquire(share);
    throw new ProblemError('rate_limited', `Too many requests to ${FULL[lacking]} are open.`, { retryAfterSeconds: 1 });
  }
}

function refusalAfter({ ms, detail }: TimeLimit): AbortSignal {
  const late = new AbortController();
  setTimeout(() => late.abort(new ProblemError('reply_timeout', detail)), ms).unref();
  return late.signal;
}
