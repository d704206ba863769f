import { Injectable, type OnModuleDestroy } from '@nestjs/common';

import { type Agent, agentNotFound, startTimeoutOf } from '../agents/index.ts';
import { Agents, WakeGate } from '../agents/services.ts';
import { Config } from '../platform/config/config.ts';
import { Refusal } from '../platform/errors/refusal.ts';
import type { Call } from '../platform/http/call.ts';
import { pathOf } from './agent-domain.ts';
import { AgentAddresses } from './agent-addresses.service.ts';
import { exchange } from './exchange.ts';
import { OpenExchanges } from './open-exchanges.ts';

/** Passes requests of anybody on to the ports of public agents, which it wakes first and keeps awake until the exchange is over. */
@Injectable()
export class PublicTraffic implements OnModuleDestroy {
  private readonly open: OpenExchanges;
  private readonly calls = new Set<Call>();

  constructor(
    private readonly agents: Agents,
    private readonly gate: WakeGate,
    private readonly addresses: AgentAddresses,
    private readonly config: Config,
  ) {
    const { trafficMax: all, trafficPerAccount: perAccount, trafficPerAgent: perAgent } = config;
    this.open = new OpenExchanges({ all, perAccount, perAgent });
  }

  /** The number of requests that are open. */
  get openCount(): number {
    return this.open.size;
  }

  /**
   * Serves the call to its end. Before its response has begun, throws `agent_not_found`, for an agent that is not public as for a missing
   * one, `rate_limited`, `agent_unavailable`, `runtime_unavailable`, `agent_failed` and `reply_timeout`.
   */
  async serve(call: Call, agentId: string): Promise<void> {
    const agent = await this.publicAgent(agentId);
    const leave = this.open.take(agent.accountId, agentId);
    this.calls.add(call);
    try {
      await this.awake(call, agentId, agent);
    } finally {
      this.calls.delete(call);
      leave();
    }
  }

  /** Cuts what a stop of the service did not wait for. */
  onModuleDestroy(): void {
    for (const call of this.calls) call.disconnect();
  }

  private async publicAgent(agentId: string): Promise<Agent> {
    const { state } = await this.agents.find(agentId);
    if (state?.settings.public !== true || state.status === 'deleting' || state.status === 'deleted') throw agentNotFound();
    return state;
  }

  private async awake(call: Call, agentId: string, { accountId, status, release }: Agent): Promise<void> {
    const { replyTimeoutSeconds, trafficIdleSeconds } = this.config;
    const gone = call.goneSignal();
    const signal = status === 'active' ? gone : AbortSignal.any([gone, inTime(startTimeoutOf(release, this.config))]);
    const context = { ...call.context, accountId };
    await this.gate.whileAwake({ agentId, accountId, trigger: 'public', context, signal }, async (agent, woken) => {
      const endpoint = this.addresses.of(agentId, agent);
      const timeouts = { replyTimeoutMs: replyTimeoutSeconds * 1_000, idleTimeoutMs: trafficIdleSeconds * 1_000 };
      await exchange({ call, endpoint, woken, ...placeOf(call), ...timeouts });
    });
  }
}

/** Returns the path and query that the agent gets, and the path under which it is reached, in the caller's spelling. */
function placeOf({ urls: { routed, asked } }: Call): { path: string; prefix: string | null } {
  const path = pathOf(asked);
  if (routed !== asked) return { path, prefix: null };
  const prefix = /^\/a\/[^/]*/.exec(path)?.[0] ?? '';
  return { path: path.slice(prefix.length), prefix };
}

function inTime(seconds: number): AbortSignal {
  const late = new AbortController();
  setTimeout(() => late.abort(new Refusal('reply_timeout', 'The agent did not wake in time.')), seconds * 1_000).unref();
  return late.signal;
}
