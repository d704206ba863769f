/*
 * Serves requests of the public to the ports of public agents.
 *
 * It owns the open calls of this process, by agent. It does not own the exchanges, their bounds and the wake (`AgentExchanges`), or the host
 * names of agents (agent-domain.ts).
 *
 * Invariants:
 * P1. An agent that is not public is answered like a missing one.
 * P2. When an agent is closed or deleted, its open calls end, on every replica, since each of them follows the log. A call is listed before
 *     the agent is read, so that no call is missed in between, and all calls are checked again after a gap in the log.
 * P3. Under a path, an agent is reached by one spelling only, because cookies and addresses are confined to that path.
 */

import { Injectable, Logger, type OnModuleDestroy } from '@nestjs/common';

import { type Agent, agentNotFound, type AgentState, publicPathOf, startTimeoutOf } from '../agents/index.ts';
import { Agents } from '../agents/services.ts';
import { Config } from '../../kernel/config/config.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { categoryOf, idOf, type StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import { LogFollower } from '../../eventsourcing/log/log-follower.ts';
import type { RequestContext } from '../../http/server/request-context.ts';
import { pathOf } from './agent-domain.ts';
import { AgentExchanges } from './agent-exchanges.service.ts';

/** Serves requests of the public to the ports of public agents. */
@Injectable()
export class PublicTraffic implements OnModuleDestroy {
  private readonly logger = new Logger('PublicTraffic');
  /** The open calls of each agent. */
  private readonly calls = new Map<string, Set<RequestContext>>();

  constructor(
    private readonly agents: Agents,
    private readonly exchanges: AgentExchanges,
    private readonly config: Config,
    follower: LogFollower,
  ) {
    follower.listen({ onEvents: (events) => events.forEach((event) => this.onEvent(event)), onGap: () => this.checkAll() });
  }

  /**
   * Serves the call to its end. Before its response has begun, throws `agent_not_found`, for an agent that is not public as for a missing
   * one, `rate_limited`, `agent_unavailable`, `runtime_unavailable`, `agent_failed` and `reply_timeout`.
   */
  async serve(call: RequestContext, agentId: string): Promise<void> {
    const place = placeOf(call);
    const prefix = publicPathOf(agentId);
    // Cookies and addresses of the agent are confined to the one spelling of its path, and its own relative addresses begin behind the slash.
    const isWithoutSlash = !place.path.startsWith('/');
    if (place.prefix !== null && (place.prefix !== prefix || isWithoutSlash)) {
      call.setStatus(308);
      call.setHeader('location', prefix + (isWithoutSlash ? '/' : '') + place.path);
      return;
    }
    // P2
    const calls = this.calls.get(agentId) ?? new Set();
    this.calls.set(agentId, calls.add(call));
    try {
      await this.serveAgent(call, agentId, place);
    } finally {
      calls.delete(call);
      if (calls.size === 0) this.calls.delete(agentId);
    }
  }

  private async serveAgent(call: RequestContext, agentId: string, place: TargetPath): Promise<void> {
    const { accountId, status, release } = publicAgent(await this.agents.findForStranger(agentId, call.context.ip ?? ''));
    const wakeMs = startTimeoutOf(release, this.config) * 1_000;
    const limit = status === 'active' ? null : { ms: wakeMs, detail: 'The agent did not wake in time.' };
    await this.exchanges.passOn({ call, agentId, accountId, trigger: 'public', limit, ...place });
  }

  /** Ends the exchanges that the service did not wait for when it stopped. */
  onModuleDestroy(): void {
    for (const agentId of this.calls.keys()) this.end(agentId);
  }

  /** P2: ends the calls of an agent that its owner has closed or deleted. */
  private onEvent({ stream, type, data }: StoredEvent): void {
    if (categoryOf(stream) !== 'agent') return;
    const isClosed = type === 'AgentConfigured' && (data as { changes?: { public?: boolean } }).changes?.public === false;
    if (isClosed || type === 'AgentDeletionRequested') this.end(idOf(stream));
  }

  /** P2: checks all agents with open calls after a gap in the log. */
  private checkAll(): void {
    for (const agentId of this.calls.keys())
      this.agents
        .find(agentId)
        .then(publicAgent)
        .catch((error: unknown) => {
          if (error instanceof ProblemError && error.code === 'agent_not_found') this.end(agentId);
          else this.logger.warn({ msg: 'could not check whether an agent is still public', agent_id: agentId, err: error });
        });
  }

  private end(agentId: string): void {
    for (const call of this.calls.get(agentId) ?? []) call.disconnect();
  }
}

function publicAgent({ state }: { state: AgentState }): Agent {
  if (state?.settings.public !== true || state.status === 'deleting' || state.status === 'deleted') throw agentNotFound();
  return state;
}

interface TargetPath {
  /** The path and query that the agent gets. */
  path: string;
  /** The path under which the agent is reached, as the caller spelled it; null if the agent has a host name of its own. */
  prefix: string | null;
}

function placeOf({ urls: { routed, asked } }: RequestContext): TargetPath {
  const path = pathOf(asked);
  if (routed !== asked) return { path, prefix: null };
  const [prefix = ''] = twoSegments.exec(path) ?? [];
  return { path: path.slice(prefix.length), prefix };
}

/** Matches the first two segments of a path as they were sent. */
const twoSegments = /^\/[^/?]*\/[^/?]*/;
