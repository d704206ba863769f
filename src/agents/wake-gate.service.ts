import { Injectable } from '@nestjs/common';

import { Config } from '../config.ts';
import { Clock } from '../platform/clock.ts';
import { Aggregates } from '../platform/event-store/aggregates.ts';
import { EventWaits } from '../platform/event-store/event-waits.ts';
import type { CommandContext } from '../platform/http/caller.ts';
import { Refusal } from '../platform/refusal.ts';
import { Activity } from './activity.service.ts';
import type { Agent } from './agent-state.decider.ts';
import { agentDecider, owned } from './agent.decider.ts';
import { transitionDeadlines } from './deadlines.ts';

/** Beyond the deadline of the wake itself, which is stored: by then the agent has settled, one way or the other. */
const MARGIN_MS = 5_000;

interface Awake {
  agent: Agent;
  /** Whether it was not active when it was asked for. */
  woken: boolean;
}

/** The one way to work with a live agent: held awake for as long as the work runs, woken first where it sleeps. */
@Injectable()
export class WakeGate {
  /** What callers of this process wait for together. */
  private readonly wakes = new Map<string, Promise<Awake>>();

  constructor(
    private readonly aggregates: Aggregates,
    private readonly waits: EventWaits,
    private readonly activity: Activity,
    private readonly clock: Clock,
    private readonly config: Config,
  ) {}

  /**
   * Runs the work with the agent active. However many call at once, an agent that sleeps is woken once. Throws `agent_not_found`;
   * `agent_unavailable` where the agent is not to be woken (stopped, never deployed, being deployed, failed) or is not awake within
   * the start timeout and 35 s.
   */
  async awake<T>(
    agentId: string,
    accountId: string,
    trigger: string,
    context: CommandContext,
    work: (agent: Agent, woken: boolean) => Promise<T>,
  ): Promise<{ result: T; woken: boolean }> {
    // A stranger must not keep an agent awake by asking for it.
    owned((await this.aggregates.load(`agent-${agentId}`, agentDecider)).state, accountId);
    // Before the state is read that the work relies on: a saga that reads the holds after it asked for a sleep sees this one, or this call sees the sleep.
    const hold = await this.activity.hold(agentId);
    try {
      const { agent, woken } = await this.together(agentId, () => this.wake(agentId, accountId, trigger, context));
      return { result: await work(agent, woken), woken };
    } finally {
      await hold.release();
    }
  }

  /** Whoever began the wake reads the state under its own hold, and keeps that until after those who joined have theirs. */
  private async together(agentId: string, wake: () => Promise<Awake>): Promise<Awake> {
    const shared = this.wakes.get(agentId) ?? wake().finally(() => this.wakes.delete(agentId));
    this.wakes.set(agentId, shared);
    return shared;
  }

  private async wake(agentId: string, accountId: string, trigger: string, context: CommandContext): Promise<Awake> {
    const stream = `agent-${agentId}`;
    const { wake: deadline } = transitionDeadlines(this.config);
    let woken = false;
    const agent = await this.waits.until(
      stream,
      async () => {
        const now = this.clock.now();
        const command = { type: 'WakeAgent' as const, accountId, trigger, deadlineAt: deadline(now) };
        const { state } = await this.aggregates.execute(stream, agentDecider, command, context);
        if (state?.status === 'active') return state;
        woken = true;
        return undefined;
      },
      { timeoutMs: Date.parse(deadline(new Date(0))) + MARGIN_MS },
    );
    if (agent === null) throw new Refusal('agent_unavailable', 'The agent did not wake in time.');
    return { agent, woken };
  }
}
