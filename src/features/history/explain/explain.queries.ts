import { Query } from '@nestjs/cqrs';

import type { ExplanationDto } from '../entries/history.dto.ts';

/** Returns the causes of the agent's current status. Throws `agent_not_found`. */
export class ExplainStatus extends Query<ExplanationDto> {
  constructor(
    readonly accountId: string,
    readonly agentId: string,
  ) {
    super();
  }
}
