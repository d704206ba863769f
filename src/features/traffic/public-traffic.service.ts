/*
 * Serves requests of the public to the ports of public agents.
 *
 * It owns the open calls of this process, by agent. It does not own the exchange itself (exchange.ts), the wake (`AgentWakes`), or the host
 * names of agents (agent-domain.ts).
 *
 * Invariants:
 * P1. An agent that is not public is answered like a missing one.
 * P2. When an agent is closed or deleted, its open calls end, on every replica, since each of them follows the log. A call is listed before
 *     the agent is read, so that no call is missed in between, and all calls are checked again after a gap in the log.
 * P3. The agent is kept awake until the exchange is over.
 * P4. Open exchanges are bounded in total, for each account and for each agent. One beyond a bound is refused at once, since a WebSocket
 *     may keep its place for hours.
 * P5. Under a path, an agent is reached by one spelling only, because cookies and addresses are confined to that path.
 */

import { Injectable, Logger, type OnModuleDestroy } from '@nestjs/common';

import { type Agent, agentNotFound, type AgentState, publicPathOf, startTimeoutOf } from '../agents/index.ts';
import { Agents, AgentWakes } from '../agents/services.ts';
import { Config } from '../../kernel/config/config.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { AccountCounter, type Limits, type Share, sharesOf } from '../../kernel/limits/account-counter.ts';
import { categoryOf, idOf, type StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import { LogFollower } from '../../eventsourcing/log/log-follower.ts';
import type { RequestContext } from '../../http/server/request-context.ts';
import { pathOf } from './agent-domain.ts';
import { AgentAddresses } from './agent-addresses.service.ts';
import { exchange } from './exchange.ts';

/** The part of the open requests that may be one agent's. An account may have a quarter. */
const AGENT_PART = 1 / 10;
const FULL: Record<keyof Limits, string> = { all: 'public agents', account: 'the agents of this account', agent: 'this agent' };

/** Serves requests of the public to the ports of public agents. It wakes the agent first, and keeps it awake until the exchange is over. */
@Injectable()
export class PublicTraffic implements OnModuleDestroy {
  private readonly logger = new Logger('PublicTraffic');
  /** The open exchanges. One that has no place is refused at once, since a WebSocket may keep its place for hours. */
  private readonly open: AccountCounter;
  /** The open calls of each agent. */
  private readonly calls = new Map<string, Set<RequestContext>>();

  constructor(
    private readonly agents: Agents,
    private readonly wakes: AgentWakes,
    private readonly addresses: AgentAddresses,
    private readonly config: Config,
    follower: LogFollower,
  ) {
    follower.listen({ onEvents: (events) => events.forEach((event) => this.onEvent(event)), onGap: () => this.checkAll() });
    this.open = new AccountCounter(sharesOf(config.trafficMax, { agent: AGENT_PART }));
  }

  /** The number of requests that are open. */
  get openCount(): number {
    return this.open.all;
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
    const agent = publicAgent(await this.agents.findForStranger(agentId, call.context.ip ?? ''));
    const leave = this.acquirePlace({ account: agent.accountId, agent: agentId });
    try {
      await this.exchangeWhileAwake(call, agentId, agent, place);
    } finally {
      leave();
    }
  }

  private acquirePlace(share: Share): () => void {
    const lacking = this.open.lacking(share);
    if (lacking === null) return this.open.acquire(share);
    throw new ProblemError('rate_limited', `Too many requests to ${FULL[lacking]} are open.`, { retryAfterSeconds: 1 });
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

  private async exchangeWhileAwake(
    call: RequestContext,
    agentId: string,
    { accountId, status, release }: Agent,
    place: TargetPath,
  ): Promise<void> {
    const { replyTimeoutSeconds, trafficIdleSeconds } = this.config;
    const gone = call.goneSignal();
    const signal = status === 'active' ? gone : AbortSignal.any([gone, wakeTimeout(startTimeoutOf(release, this.config))]);
    const context = { ...call.context, accountId };
    await this.wakes.whileAwake({ sandboxId: agentId, accountId, trigger: 'public', context, signal }, async (agent, woken) => {
      const endpoint = this.addresses.endpointFor(agentId, agent);
      const timeouts = { replyTimeoutMs: replyTimeoutSeconds * 1_000, idleTimeoutMs: trafficIdleSeconds * 1_000 };
      await exchange({ call, endpoint, woken, ...place, ...timeouts });
    });
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

function wakeTimeout(seconds: number): AbortSignal {
  const late = new AbortController();
  setTimeout(() => late.abort(new ProblemError('reply_timeout', 'The agent did not wake in time.')), seconds * 1_000).unref();
  return late.signal;
}
