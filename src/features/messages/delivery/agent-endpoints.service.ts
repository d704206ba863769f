import { Injectable } from '@nestjs/common';

import { type AgentEndpoint, endpointOf } from '../../../agent-protocol/agent-endpoint.ts';
import type { ProtocolSpec } from '../../../agent-protocol/protocol.ts';
import { ContainerRuntime } from '../../../runtime/runtime.ts';
import type { Agent } from '../../agents/index.ts';
import { ReleaseRuns } from '../../agents/services.ts';

/** Knows where agents take messages, and in which protocol. */
@Injectable()
export class AgentEndpoints {
  constructor(
    private readonly runtime: ContainerRuntime,
    private readonly runs: ReleaseRuns,
  ) {}

  of(agentId: string, { accountId, activeSince, generation, release }: Agent): { endpoint: AgentEndpoint; protocol: ProtocolSpec } {
    const { port, protocol } = this.runs.of(release);
    const container = { agentId, generation };
    const endpoint = endpointOf({ ...container, accountId, activeSince }, port, () => this.runtime.address(container, port));
    return { endpoint, protocol };
  }
}
