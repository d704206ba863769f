import { Injectable } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';

import { EveryAgent, type AgentInUse } from '../agents/index.ts';
import { ContainerRuntime, RuntimeUnavailable } from '../platform/runtime/runtime.ts';
import type { SagaKey } from '../platform/sagas/saga.ts';
import { ContainerSteps } from './container-steps.service.ts';
import { differs, type Listed } from './differences.decider.ts';

/** Rows that are read at a time: a longer page would hold up whoever waits for this thread. */
const PAGE = 500;
/** Agents that one look hands over; the next look finds those that are left. */
const FOUND_MAX = 5_000;
/** Agents of which the log knows nothing and that are left alone. */
const STRANGERS_MAX = 10_000;

const NOTHING: Listed = { containers: [], volume: false };

/** Holds the engine against the agents' rows: one bulk look at each, and only what differs is handed over. */
@Injectable()
export class Differences {
  private readonly strangers = new Set<string>();

  constructor(
    private readonly runtime: ContainerRuntime,
    private readonly steps: ContainerSteps,
    private readonly queries: QueryBus,
  ) {}

  /**
   * The agents for which a pass would do something, and those whose containers or volumes no agent wants; at most 5,000. `listMaxAgeMs`: how
   * old the look at the engine may be.
   */
  async find(listMaxAgeMs: number): Promise<SagaKey[]> {
    const [listed, { freeze }] = await Promise.all([this.#listed(listMaxAgeMs), this.runtime.capabilities()]);
    const found: SagaKey[] = [];
    let after: string | null = null;
    do {
      const page: AgentInUse[] = await this.queries.execute(new EveryAgent(after, PAGE));
      const now = new Date();
      for (const { agentId, ...known } of page) {
        const there = listed === null ? null : (listed.get(agentId) ?? NOTHING);
        listed?.delete(agentId);
        if (!differs(known, there, this.steps.rules(known.agent, freeze), now)) continue;
        if (found.push({ key: agentId, account: known.agent.accountId }) >= FOUND_MAX) return found;
      }
      after = page.length < PAGE ? null : (page.at(-1)?.agentId ?? null);
    } while (after !== null);
    for (const agentId of listed?.keys() ?? []) if (!this.strangers.has(agentId)) found.push({ key: agentId, account: null });
    return found.slice(0, FOUND_MAX);
  }

  /** The log does not know the agent, so it is not ours to judge. */
  leaveAlone(agentId: string): void {
    if (this.strangers.size < STRANGERS_MAX) this.strangers.add(agentId);
  }

  /** By agent; null where the engine does not answer. */
  async #listed(maxAgeMs: number): Promise<Map<string, Listed> | null> {
    try {
      const { containers, volumes } = await this.runtime.listed(maxAgeMs);
      const byAgent = new Map<string, { containers: Listed['containers'][number][]; volume: boolean }>();
      for (const agentId of volumes) byAgent.set(agentId, { containers: [], volume: true });
      for (const container of containers) {
        const seen = byAgent.get(container.agentId);
        if (seen === undefined) byAgent.set(container.agentId, { containers: [container], volume: false });
        else seen.containers.push(container);
      }
      return byAgent;
    } catch (error) {
      if (error instanceof RuntimeUnavailable) return null;
      throw error;
    }
  }
}
