import { Query } from '@nestjs/cqrs';

import type { Loaded } from '../../eventsourcing/aggregates/dated-state.ts';
import type { KnownSandbox, SandboxOfAccount } from '../../sandboxes/index.ts';
import type { Agent, AgentStatus } from './aggregate/agent-state.rules.ts';
import type { AgentRow, AgentColumns } from './agents.table.ts';

/** An agent at the end of a wait. */
export interface AgentWaitResult {
  /** The value is true if the agent reached one of the statuses in time. */
  reached: boolean;
  agent: Loaded<Agent>;
}

/** Waits, driven by events, until the agent has one of the statuses. Throws `agent_not_found`, also if the agent is deleted meanwhile. */
export class AwaitAgent extends Query<AgentWaitResult> {
  constructor(
    readonly accountId: string,
    readonly agentId: string,
    /** The statuses to wait for; null means any that is no transition. */
    readonly statuses: readonly AgentStatus[] | null,
    readonly timeoutSeconds: number,
  ) {
    super();
  }
}

/** Returns the account's agent. Throws `agent_not_found`. */
export class GetAgent extends Query<AgentColumns> {
  constructor(
    readonly accountId: string,
    readonly agentId: string,
  ) {
    super();
  }
}

/** Lists the account's agents, newest first. */
export class ListAgents extends Query<AgentRow[]> {
  constructor(
    readonly accountId: string,
    readonly limit: number,
    /** The `created_at` and `agent_id` of the last agent on the previous page. */
    readonly after: readonly [string, string] | null,
    /** Selects the agent that the caller knows by this id; null selects all. */
    readonly externalId: string | null,
  ) {
    super();
  }
}

/** Returns a page of the agents of all accounts, ordered by id. */
export class ListAllAgents extends Query<KnownSandbox<Agent>[]> {
  constructor(
    /** The last agent of the previous page. */
    readonly after: string | null,
    readonly limit: number,
  ) {
    super();
  }
}

/**
 * Returns the agents of all accounts that may need work on the engine, or have a container there. It omits those at rest (`created`,
 * `stopped`, in deep sleep), of which there may be very many.
 */
export class ListLiveAgentIds extends Query<string[]> {}

/** Returns the agents of all accounts whose containers may have written to their volumes since that time, at most 20,000. */
export class ListAgentsThatMayWrite extends Query<SandboxOfAccount[]> {
  constructor(readonly since: Date) {
    super();
  }
}
