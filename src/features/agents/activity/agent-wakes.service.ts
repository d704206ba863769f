import { Injectable, type OnModuleInit } from '@nestjs/common';

import { Config } from '../../../kernel/config/config.ts';
import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import type { CommandResult } from '../../../eventsourcing/aggregates/aggregates.ts';
import type { Loaded } from '../../../eventsourcing/aggregates/dated-state.ts';
import type { Need, NotAwake, Wakeable } from '../../../sandboxes/index.ts';
import { bringUpSeconds } from '../../../sandboxes/lifecycle/deadlines.rules.ts';
import { Wakeables, WakeGate } from '../../../sandboxes/services.ts';
import type { Agent, AgentState } from '../aggregate/agent-state.rules.ts';
import { requireOwned } from '../aggregate/agents.decider.ts';
import { Agents } from '../aggregate/agents.service.ts';
import { startTimeoutOf } from '../aggregate/deadlines.rules.ts';

const MESSAGES: Record<NotAwake, string> = {
  asleep: 'The agent is not running.',
  late: 'The agent did not wake in time.',
  gone: 'The agent’s container does not run.',
};

/** Implements for the wake gate how agents are found and woken. */
@Injectable()
export class AgentWakes implements Wakeable<Agent>, OnModuleInit {
  readonly kind = 'agent';

  constructor(
    private readonly wakeables: Wakeables,
    private readonly gate: WakeGate,
    private readonly agents: Agents,
    private readonly config: Config,
  ) {}

  onModuleInit(): void {
    this.wakeables.register(this);
  }

  /**
   * Like `WakeGate.whileAwake`, for work that needs the agent's state. Throws `agent_not_found`, and `agent_unavailable` if the agent
   * must not be woken (stopped, never deployed, being deployed, failed) or is not awake within its start timeout and 35 s.
   */
  whileAwake<T>(need: Need, work: (agent: Agent, woken: boolean) => Promise<T>): Promise<{ result: T; woken: boolean }> {
    // The states that the gate passes on come from this class, so they are agents.
    return this.gate.whileAwake(need, (sandbox, woken) => work(sandbox as Agent, woken));
  }

  find(agentId: string): Promise<Loaded<AgentState>> {
    return this.agents.find(agentId);
  }

  requireOwned(agent: AgentState, accountId: string): Agent {
    return requireOwned(agent, accountId);
  }

  isAwake(agent: Agent): boolean {
    return agent.status === 'active';
  }

  wake({ sandboxId, accountId, trigger, context }: Need): Promise<CommandResult<AgentState>> {
    const { startTimeoutSeconds } = this.config;
    return this.agents.execute(sandboxId, { type: 'WakeAgent', accountId, trigger, startTimeoutSeconds }, context);
  }

  until<T>(agentId: string, probe: () => Promise<T | undefined>, options: { timeoutMs: number }): Promise<T | null> {
    return this.agents.until(agentId, probe, options);
  }

  wakeSeconds({ release }: Agent): number {
    return bringUpSeconds(startTimeoutOf(release, this.config));
  }

  notAwake(why: NotAwake): ProblemError {
    return new ProblemError('agent_unavailable', MESSAGES[why]);
  }
}
