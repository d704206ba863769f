import { Injectable } from '@nestjs/common';

import { Aggregates, type Executed, type ExecuteOptions, type Loaded } from '../../platform/event-store/aggregates.ts';
import {
  EventStore,
  type ExpectedRevision,
  type Position,
  type ReadStreamOptions,
  type StoredEvent,
} from '../../platform/event-store/event-store.ts';
import { EventWaits, type EventWatch } from '../../platform/event-store/following/event-waits.ts';
import type { CommandContext } from '../../platform/context/command-context.ts';
import { NETWORK_BITS, networkOf } from '../../platform/network-of.ts';
import type { Agent, AgentState } from './agent-state.decider.ts';
import { agentStream } from './agent-stream.ts';
import { agentDecider, agentNotFound, owned, type AgentCommand } from './agents.decider.ts';
import type { AgentEvent } from './agents.events.ts';

/** Loads agents and executes commands on them. The rest of the program knows neither an agent's decider nor its stream. */
@Injectable()
export class Agents {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly store: EventStore,
    private readonly waits: EventWaits,
  ) {}

  /**
   * Returns the newest state of the account's agent, which exists until its deletion is requested. Throws `agent_not_found`, for another
   * account's agent as for a missing one. See `Aggregates.load` for `upTo`.
   */
  async load(agentId: string, accountId: string, upTo?: Position): Promise<Agent> {
    return owned((await this.find(agentId, upTo)).state, accountId);
  }

  /** Returns the account's agent, even if it is deleted. Throws `agent_not_found`. */
  async loadWithDeleted(agentId: string, accountId: string): Promise<Loaded<Agent>> {
    const found = await this.find(agentId);
    if (found.state?.accountId !== accountId) throw agentNotFound();
    return { ...found, state: found.state };
  }

  /** Returns the newest state of an agent of any account, even if it is deleted; null if there never was one. */
  find(agentId: string, upTo?: Position): Promise<Loaded<AgentState>> {
    return this.aggregates.load(agentStream(agentId), agentDecider, upTo);
  }

  /** Does as `find`, for a caller at that address who is not known. Throws `rate_limited`; see `Aggregates.loadForStranger`. */
  findForStranger(agentId: string, address: string, upTo?: Position): Promise<Loaded<AgentState>> {
    return this.aggregates.loadForStranger(networkOf(address, NETWORK_BITS), agentStream(agentId), agentDecider, upTo);
  }

  /** Executes the command. Throws the errors of the agent's rules, and those of `Aggregates.execute`. */
  execute(
    agentId: string,
    command: AgentCommand,
    context: CommandContext,
    options?: ExecuteOptions<AgentEvent>,
  ): Promise<Executed<AgentState>> {
    return this.aggregates.execute(agentStream(agentId), agentDecider, command, context, options);
  }

  /** Reads the agent's events in order; those of its variables are among them. */
  events(agentId: string, options?: ReadStreamOptions): AsyncIterable<StoredEvent> {
    return this.store.readStream(agentStream(agentId), options);
  }

  /** Starts to watch for the agent's events. See `EventWaits.watch`. */
  watch(agentId: string): EventWatch {
    return this.waits.watch(agentStream(agentId));
  }

  /** Waits until the probe has a result, which it looks for now and after each event of the agent. See `EventWaits.until`. */
  until<T>(agentId: string, probe: () => Promise<T | undefined>, options: { timeoutMs: number; signal?: AbortSignal }): Promise<T | null> {
    return this.waits.until(agentStream(agentId), probe, options);
  }

  /** Closes the agent's stream, so that no event can follow, and removes its snapshots. May be repeated. */
  async close(agentId: string, expected: ExpectedRevision): Promise<void> {
    await this.store.closeStream(agentStream(agentId), expected);
    await this.aggregates.removeSnapshotsOf(agentId);
  }
}
