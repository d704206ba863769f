import { Command } from '@nestjs/cqrs';

import type { Position } from '../platform/event-store/event-store.ts';
import type { CommandContext } from '../platform/context/command-context.ts';
import type { SourceOverrides } from './sources/deployment-sources.decider.ts';

/** Requests a deployment. Throws `deploy_in_progress`, `agent_not_found`, and `invalid_request` if there is nothing to deploy. */
export class DeployAgent extends Command<{ deploymentId: string; position: Position }> {
  constructor(
    readonly context: CommandContext,
    readonly accountId: string,
    readonly agentId: string,
    readonly overrides: SourceOverrides,
    /** The seed of derived ids, the same for every retry of one request; null if the request has no idempotency key. */
    readonly seed: string | null,
  ) {
    super();
  }
}
