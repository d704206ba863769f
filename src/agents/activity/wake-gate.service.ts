import { Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';

import { Config } from '../../platform/config/config.ts';
import { unlessAborted } from '../../platform/async/unless-aborted.ts';
import { categoryOf, idOf, START, type Position, type StoredEvent } from '../../platform/event-store/event-store.ts';
import { LogFollower } from '../../platform/event-store/following/log-follower.ts';
import type { CommandContext } from '../../platform/context/command-context.ts';
import { Refusal } from '../../platform/errors/refusal.ts';
import { bringUpSeconds } from '../../sandboxes/lifecycle/deadlines.decider.ts';
import { Activity, type HeldRow } from '../../sandboxes/services.ts';
import type { Agent, Release } from '../aggregate/agent-state.decider.ts';
import { owned } from '../aggregate/agents.decider.ts';
import { Agents } from '../aggregate/agents.service.ts';
import { startTimeoutOf } from '../aggregate/deadlines.decider.ts';

/** The time in milliseconds after the stored deadline of the wake, by which the agent has settled in any case. */
const MARGIN_MS = 5_000;

interface Awake {
  agent: Agent;
  /** True if the agent was not active when it was asked for. */
  woken: boolean;
}

/** A caller's need for a live agent, and its reason. */
export interface Need {
  agentId: string;
  accountId: string;
  /** The trigger that the wake is recorded with. */
  trigger: string;
  context: CommandContext;
  /** The signal that ends the wait for the agent to be awake. */
  signal: AbortSignal;
}

/** Gives access to live agents: holds an agent awake while the work runs, and wakes it first if it sleeps. */
@Injectable()
export class WakeGate implements OnModuleInit, OnModuleDestroy {
  /** Maps an agent to the wake that callers of this process share. */
  private readonly wakes = new Map<string, Promise<Awake>>();
  /**
   * Maps a row to the agent that was seen active while the row held it. The agent is not put to sleep while that row exists, so its state
   * need not be read again until another event of the agent arrives.
   */
  private seenActive = new WeakMap<HeldRow, Agent>();
  /** Maps a row to the position of the last event that arrived on the held agent's stream. */
  private heardUpTo = new WeakMap<HeldRow, Position>();
  private stopListening = () => {};

  constructor(
    private readonly agents: Agents,
    private readonly follower: LogFollower,
    private readonly activity: Activity,
    private readonly config: Config,
  ) {}

  onModuleInit(): void {
    this.stopListening = this.follower.listen({
      onEvents: (events) => this.onEvents(events),
      onGap: () => (this.seenActive = new WeakMap()),
    });
  }

  onModuleDestroy(): void {
    this.stopListening();
  }

  /**
   * Runs the work with the agent active. However many call at once, a sleeping agent is woken once. Throws `agent_not_found`;
   * `agent_unavailable` if the agent must not be woken (stopped, never deployed, being deployed, failed) or is not awake within its
   * start timeout and 35 s; the signal's reason if it aborts before the agent is awake.
   */
  async whileAwake<T>(need: Need, work: (agent: Agent, woken: boolean) => Promise<T>): Promise<{ result: T; woken: boolean }> {
    const { agentId, accountId } = need;
    // Another account must not keep an agent awake by asking for it.
    const { release } = owned(this.known(this.activity.rowOf(agentId)) ?? (await this.agents.find(agentId)).state, accountId);
    // The hold is written before the state is read. So a saga that reads the holds after it requested a sleep sees this one, or this call
    // sees the sleep.
    const hold = await this.activity.hold(agentId);
    try {
      const agent = this.known(hold.row);
      const awake = agent === null ? await this.together(need, hold.row, release) : { agent, woken: false };
      return { result: await work(awake.agent, awake.woken), woken: awake.woken };
    } finally {
      hold.release();
    }
  }

  /**
   * Begins a wake or joins the one in progress. The caller that began it reads the state under its own hold, and keeps that until those who
   * joined have theirs.
   */
  private together(need: Need, row: HeldRow, release: Release | null): Promise<Awake> {
    const { agentId, signal } = need;
    const shared = this.wakes.get(agentId) ?? this.wake(need, row, release).finally(() => this.wakes.delete(agentId));
    this.wakes.set(agentId, shared);
    return unlessAborted(shared, signal);
  }

  /** Wakes the agent. The signal of the caller that began the wake does not end it, because others wait for it too. */
  private async wake({ agentId, accountId, trigger, context }: Need, row: HeldRow, release: Release | null): Promise<Awake> {
    const { startTimeoutSeconds } = this.config;
    const { seenActive } = this;
    let woken = false;
    const agent = await this.agents.until(
      agentId,
      async () => {
        const command = { type: 'WakeAgent' as const, accountId, trigger, startTimeoutSeconds };
        const { state, position } = await this.agents.execute(agentId, command, context);
        if (state?.status !== 'active') {
          woken = true;
          return undefined;
        }
        // An event that arrived meanwhile may be newer than the state that was read.
        if ((this.heardUpTo.get(row) ?? START) <= position) seenActive.set(row, state);
        return state;
      },
      { timeoutMs: bringUpSeconds(startTimeoutOf(release, this.config)) * 1_000 + MARGIN_MS },
    );
    if (agent === null) throw new Refusal('agent_unavailable', 'The agent did not wake in time.');
    return { agent, woken };
  }

  private known(row: HeldRow | null): Agent | null {
    return (row !== null && this.seenActive.get(row)) || null;
  }

  private onEvents(events: readonly StoredEvent[]): void {
    for (const { stream, position } of events) {
      if (categoryOf(stream) !== 'agent') continue;
      const row = this.activity.rowOf(idOf(stream));
      if (row === null) continue;
      this.seenActive.delete(row);
      this.heardUpTo.set(row, position);
    }
  }
}
