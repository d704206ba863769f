import { Command } from '@nestjs/cqrs';

import type { Position } from '../../eventsourcing/event-store/event-store.ts';
import type { CommandContext } from '../../kernel/context/command-context.ts';
import type { ProvisionRequest } from './provision-request.ts';

export interface Provisioned {
  agentId: string;
  /** The id of the agent's latest deployment; null if it has none. */
  deploymentId: string | null;
  position: Position;
  /** The value is false if an agent with the same external id existed already. */
  made: boolean;
}

/**
 * Makes an agent, with its variables and its first deployment. Throws `invalid_request`, `template_not_found`, `plan_required` or
 * `seat_limit` before anything is written.
 */
export class Provision extends Command<Provisioned> {
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
