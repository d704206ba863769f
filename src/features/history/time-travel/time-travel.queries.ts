import { Query } from '@nestjs/cqrs';

import type { DiffDto, Moment, PastStateDto } from '../entries/history.dto.ts';

/**
 * Returns the agent as it was at the moment. Throws `agent_not_found`, also if the agent did not exist yet, and `invalid_request` for a
 * revision that the agent has not reached.
 */
export class GetPastState extends Query<PastStateDto> {
  constructor(
    readonly accountId: string,
    readonly agentId: string,
    readonly moment: Moment,
  ) {
    super();
  }
}

/** Returns the differences between two states, and the event behind each one. Throws the errors of `GetPastState`. */
export class GetDiff extends Query<DiffDto> {
  constructor(
    readonly accountId: string,
    readonly agentId: string,
    readonly from: Moment,
    readonly to: Moment,
  ) {
    super();
  }
}
