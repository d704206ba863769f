import { Injectable, Optional } from '@nestjs/common';

import { invalidField } from '../../../kernel/errors/problem-error.ts';
import { ContainerRuntime } from '../../../runtime/runtime.ts';
import type { AgentEgress } from '../../../kernel/network/allow-list.ts';

/** Determines whether the runtime can limit an agent to a list of names. */
@Injectable()
export class AllowLists {
  constructor(@Optional() private readonly runtime?: ContainerRuntime) {}

  /** Throws ProblemError `invalid_request` for a list of names if the runtime can't limit an agent to it. */
  refuseUnsupported(egress: AgentEgress | null | undefined): void {
    if (this.runtime?.name === 'local' && typeof egress === 'object' && egress !== null)
      throw invalidField('egress', 'must not be a list of names, because agents are held to one only on a Docker Engine');
  }
}
