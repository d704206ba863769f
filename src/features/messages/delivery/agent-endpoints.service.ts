import { Injectable } from '@nestjs/common';

import { type AgentEndpoint, endpointOf } from '../../../agent-protocol/agent-endpoint.ts';
import type { ProtocolSpec } from '../../../agent-protocol/protocol.ts';
import { ContainerRuntime } from '../../../runtime/runtime.ts';
import type { Agent } from '../../agents/index.ts';
import { DEFAULT_PORT, Templates } from '../../templates/index.ts';

/** Knows where agents take messages, and in which protocol. */
@Injectable()
export class AgentEndpoints {
  constructor(
    private readonly runtime: ContainerRuntime,
    private readonly templates: Templates,
  ) {}

  of(agentId: string, { accountId, activeSince, generation, release }: Agent): { endpoint: AgentEndpoint; protocol: ProtocolSpec } {
    const template = release?.templateId ? this.templates.get(release.templateId) : undefined;
    const container = { agentId, generation };
    const port = template?.port ?? DEFAULT_PORT;
    const endpoint = endpointOf({ ...container, accountId, activeSince }, port, () => this.runtime.address(container, port));
    return { endpoint, protocol: template?.protocol ?? { name: 'mooring' } };
  }
}
