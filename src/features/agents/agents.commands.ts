import { Command } from '@nestjs/cqrs';

import type { Loaded } from '../../eventsourcing/aggregates/dated-state.ts';
import type { CommandContext } from '../../kernel/context/command-context.ts';
import type { Spelling } from '../../kernel/text/spelling.ts';
import type { Agent } from './aggregate/agent-state.rules.ts';
import type { AgentSettings } from './aggregate/agents.events.ts';

/** The agent as the write has left it. */
export interface AgentWriteResult extends Loaded<Agent> {
  /** The value is true if the agent was active before. */
  wasActive: boolean;
}

export abstract class AgentWrite<Result = AgentWriteResult> extends Command<Result> {
  constructor(
    readonly context: CommandContext,
    readonly accountId: string,
    readonly agentId: string,
    /** The revisions at which the caller allows the write; null allows any. */
    readonly ifMatch: readonly number[] | null = null,
  ) {
    super();
  }
}

/** Starts the agent, or wakes it if it sleeps. Throws `invalid_state` if no deployment has succeeded yet. */
export class StartAgent extends AgentWrite {}

/** Stops the agent's container, and cancels a deployment in progress. */
export class StopAgent extends AgentWrite {}

/** Replaces the agent's container with a new one. Throws `invalid_state`, `deploy_in_progress`. */
export class RestartAgent extends AgentWrite {}

/** Puts the agent to sleep, and keeps its memory if the engine supports that. Throws `invalid_state`, `deploy_in_progress`. */
export class SleepAgent extends AgentWrite {}

/** Changes the agent's settings. Appends nothing if they have these values already. */
export class ConfigureAgent extends AgentWrite {
  constructor(
    context: CommandContext,
    accountId: string,
    agentId: string,
    ifMatch: readonly number[] | null,
    /** The changes, and the caller's spelling of the fields, in refusals. */
    readonly request: { changes: Partial<AgentSettings>; spelling: Spelling },
  ) {
    super(context, accountId, agentId, ifMatch);
  }
}

/** Deletes the agent, or joins a deletion in progress. Answers when the agent is gone, with the position of that, or after 30 s. */
export class DeleteAgent extends AgentWrite<AgentWriteResult & { gone: boolean }> {}
