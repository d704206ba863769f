import { Injectable } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';

import { EveryAgent, type AgentInUse } from '../../agents/index.ts';
import { ContainerRuntime, RuntimeUnavailable } from '../../platform/runtime/runtime.ts';
import type { SagaKey } from '../../platform/sagas/saga.ts';
import { kindOf } from '../../sandboxes/index.ts';
import { ContainerSteps } from '../../sandboxes/services.ts';
import { differs, type Listed } from './differences.decider.ts';

/** The number of rows that are read at a time. A longer page would block this thread for too long. */
const PAGE = 500;
/** The largest number of agents that one search returns; the next search finds the rest. */
const FOUND_MAX = 5_000;
/** The largest number of agents unknown to the log that are remembered in order to leave them alone. */
const UNKNOWN_AGENTS_MAX = 10_000;

const NOTHING: Listed = { containers: [], volume: false };

/** Compares the engine with the agents' rows. Lists both in bulk, and returns only the agents that differ. */
@Injectable()
export class Differences {
  private readonly unknownAgents = new Set<string>();

  constructor(
    private readonly runtime: ContainerRuntime,
    private readonly steps: ContainerSteps,
    private readonly queries: QueryBus,
  ) {}

  /**
   * Returns the agents for which a pass would do something, and those that have containers or a volume but no row; at most 5,000.
   * `listMaxAgeMs` is the oldest acceptable container list, in milliseconds.
   */
  async find(listMaxAgeMs: number): Promise<SagaKey[]> {
    const [listed, { freeze }] = await Promise.all([this.listed(listMaxAgeMs), this.runtime.capabilities()]);
    const rules = this.steps.rules(freeze);
    const found: SagaKey[] = [];
    let after: string | null = null;
    do {
      const page: AgentInUse[] = await this.queries.execute(new EveryAgent(after, PAGE));
      const now = new Date();
      for (const { agentId, ...known } of page) {
        const there = listed === null ? null : (listed.get(agentId) ?? NOTHING);
        listed?.delete(agentId);
        if (!differs(known, there, rules, now)) continue;
        if (found.push({ key: agentId, account: known.agent.accountId }) >= FOUND_MAX) return found;
      }
      after = page.length < PAGE ? null : (page.at(-1)?.agentId ?? null);
    } while (after !== null);
    for (const agentId of listed?.keys() ?? []) if (!this.unknownAgents.has(agentId)) found.push({ key: agentId, account: null });
    return found.slice(0, FOUND_MAX);
  }

  /** Excludes an agent that the log does not know from later searches. */
  ignore(agentId: string): void {
    if (this.unknownAgents.size < UNKNOWN_AGENTS_MAX) this.unknownAgents.add(agentId);
  }

  /** Lists containers and volumes by agent, without those of other kinds of sandboxes. Returns null if the engine is unavailable. */
  private async listed(maxAgeMs: number): Promise<Map<string, Listed> | null> {
    try {
      const { containers, volumes } = await this.runtime.listed(maxAgeMs);
      const byAgent = new Map<string, { containers: Listed['containers'][number][]; volume: boolean }>();
      for (const agentId of volumes.filter(isAgent)) byAgent.set(agentId, { containers: [], volume: true });
      for (const container of containers.filter(({ agentId }) => isAgent(agentId))) {
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

function isAgent(sandboxId: string): boolean {
  return kindOf(sandboxId) === 'agent';
}
