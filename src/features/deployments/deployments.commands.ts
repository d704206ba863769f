import { Command } from '@nestjs/cqrs';

import type { Loaded } from '../../eventsourcing/aggregates/dated-state.ts';
import type { CommandContext } from '../../kernel/context/command-context.ts';
import type { Agent } from '../agents/index.ts';
import type { SourceOverrides } from './sources/source-overrides.ts';

/** A deployment, and its agent as the write has left it. */
export interface WrittenDeployment {
  deploymentId: string;
  agent: Loaded<Agent>;
}

/** Requests a deployment. Throws `deploy_in_progress`, `agent_not_found`, and `invalid_request` if there is nothing to deploy. */
export class DeployAgent extends Command<WrittenDeployment> {
  constructor(
    readonly context: CommandContext,
    readonly accountId: string,
    readonly agentId: string,
    readonly overrides: SourceOverrides,
    /** The seed of the derived ids, the same for every retry of one request; null if the request has no idempotency key. */
    readonly seed: string | null,
  ) {
    super();
  }
}

/**
 * Requests a deployment with the image of an earlier successful one, without a build. Throws `deploy_in_progress`, `agent_not_found`,
 * `not_found` if the agent has no such deployment, and `invalid_state` if that did not succeed, or if there is none.
 */
export class RollBackAgent extends Command<WrittenDeployment> {
  constructor(
    readonly context: CommandContext,
    readonly accountId: string,
    readonly agentId: string,
    /** The id of the earlier deployment; null stands for the last success before the latest deployment. */
    readonly earlierId: string | null,
    /** The seed of the derived ids, as for `DeployAgent`. */
    readonly seed: string | null,
  ) {
    super();
  }
}

/** Cancels the agent's deployment in progress. Throws `agent_not_found`, `not_found`, and `invalid_state` if it has ended. */
export class CancelDeployment extends Command<WrittenDeployment> {
  constructor(
    readonly context: CommandContext,
    readonly accountId: string,
    readonly agentId: string,
    readonly deploymentId: string,
  ) {
    super();
  }
}
