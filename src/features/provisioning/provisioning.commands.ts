import { Command } from '@nestjs/cqrs';

import type { Loaded } from '../../eventsourcing/aggregates/dated-state.ts';
import type { CommandContext } from '../../kernel/context/command-context.ts';
import type { Agent } from '../agents/index.ts';
import type { ProvisionRequest } from './provision-request.ts';

export interface ProvisionResult {
  agentId: string;
  /** The agent as it was made or found. */
  agent: Loaded<Agent>;
  /** The value is false if an agent with the same external id already existed. */
  isNew: boolean;
}

/**
 * Creates an agent with its variables and its first deployment. Throws `invalid_request`, `template_not_found`, `plan_required` or
 * `seat_limit` before anything is stored.
 */
export class Provision extends Command<ProvisionResult> {
  constructor(
    readonly context: CommandContext,
    readonly accountId: string,
    readonly request: ProvisionRequest,
    /**
     * A UUID that is the same for every try of one request, so that a later try continues an interrupted one; null means that there is no
     * other try.
     */
    readonly seed: string | null,
  ) {
    super();
  }
}
