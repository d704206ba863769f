import { Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';

import { Config } from '../config.ts';
import { unlessAborted } from '../platform/async/unless-aborted.ts';
import { Aggregates } from '../platform/event-store/aggregates.ts';
import { categoryOf, idOf, START, type Position, type StoredEvent } from '../platform/event-store/event-store.ts';
import { EventWaits } from '../platform/event-store/event-waits.ts';
import { LogFollower } from '../platform/event-store/log-follower.ts';
import type { CommandContext } from '../platform/http/caller.ts';
import { Refusal } from '../platform/refusal.ts';
import { Activity, type HeldRow } from './activity.service.ts';
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

/** Who needs the agent, and why. */
export interface Need {
  agentId: string;
  accountId: string;
  /** What the wake is recorded with. */
  trigger: string;
  context: CommandContext;
  /** Ends the wait for the agent to be awake. */
  signal: AbortSignal;
}

/** The one way to work with a live agent: held awake for as long as the work runs, woken first where it sleeps. */
@Injectable()
export class WakeGate implements OnModuleInit, OnModuleDestroy {
  /** What callers of this process wait for together. */
  private readonly wakes = new Map<string, Promise<Awake>>();
  /**
   * Agents that were seen active, by the row that held them then. Nobody puts an agent to sleep for as long as that row stands, so its state
   * need not be read again until something else happens to it.
   */
  private seenActive = new WeakMap<HeldRow, Agent>();
  /** The last event of a held agent's stream that was heard, by the row. */
  private heardUpTo = new WeakMap<HeldRow, Position>();
  private stopListening = () => {};

  constructor(
    private readonly aggregates: Aggregates,
    private readonly waits: EventWaits,
    private readonly follower: LogFollower,
    private readonly activity: Activity,
    private readonly config: Config,
  ) {}

  onModuleInit(): void {
    this.stopListening = this.follower.listen({
      onEvents: (events) => this.hear(events),
      onGap: () => (this.seenActive = new WeakMap()),
    });
  }

  onModuleDestroy(): void {
    this.stopListening();
  }

  /**
   * Runs the work with the agent active. However many call at once, an agent that sleeps is woken once. Throws `agent_not_found`;
   * `agent_unavailable` where the agent is not to be woken (stopped, never deployed, being deployed, failed) or is not awake within
   * the start timeout and 35 s; the signal's reason where that aborts before the agent is awake.
   */
  async awake<T>(need: Need, work: (agent: Agent, woken: boolean) => Promise<T>): Promise<{ result: T; woken: boolean }> {
    const { agentId, accountId } = need;
    // A stranger must not keep an agent awake by asking for it.
    owned(this.known(this.activity.rowOf(agentId)) ?? (await this.aggregates.load(`agent-${agentId}`, agentDecider)).state, accountId);
    // Before the state is read that the work relies on: a saga that reads the holds after it asked for a sleep sees this one, or this call sees the sleep.
    const hold = await this.activity.hold(agentId);
    try {
      const agent = this.known(hold.row);
      const awake = agent === null ? await this.together(need, hold.row) : { agent, woken: false };
      return { result: await work(awake.agent, awake.woken), woken: awake.woken };
    } finally {
      hold.release();
    }
  }

  /** Whoever began the wake reads the state under its own hold, and keeps that until after those who joined have theirs. */
  private together(need: Need, row: HeldRow): Promise<Awake> {
    const { agentId, signal } = need;
    const shared = this.wakes.get(agentId) ?? this.wake(need, row).finally(() => this.wakes.delete(agentId));
    this.wakes.set(agentId, shared);
    return unlessAborted(shared, signal);
  }

  /** Not ended by the signal of whoever began it: others wait for it too. */
  private async wake({ agentId, accountId, trigger, context }: Need, row: HeldRow): Promise<Awake> {
    const stream = `agent-${agentId}`;
    const { wake: deadline } = transitionDeadlines(this.config);
    const { seenActive } = this;
    let woken = false;
    const agent = await this.waits.until(
      stream,
      async () => {
        const command = { type: 'WakeAgent' as const, accountId, trigger, deadlineAt: deadline(new Date()) };
        const { state, position } = await this.aggregates.execute(stream, agentDecider, command, context);
        if (state?.status !== 'active') {
          woken = true;
          return undefined;
        }
        // What was heard meanwhile may be newer than what was read.
        if ((this.heardUpTo.get(row) ?? START) <= position) seenActive.set(row, state);
        return state;
      },
      { timeoutMs: Date.parse(deadline(new Date(0))) + MARGIN_MS },
    );
    if (agent === null) throw new Refusal('agent_unavailable', 'The agent did not wake in time.');
    return { agent, woken };
  }

  private known(row: HeldRow | null): Agent | null {
    return (row !== null && this.seenActive.get(row)) || null;
  }

  private hear(events: readonly StoredEvent[]): void {
    for (const { stream, position } of events) {
      if (categoryOf(stream) !== 'agent') continue;
      const row = this.activity.rowOf(idOf(stream));
      if (row === null) continue;
      this.seenActive.delete(row);
      this.heardUpTo.set(row, position);
    }
  }
}
