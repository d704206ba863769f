import { Injectable } from '@nestjs/common';

import type { Agent } from '../agents/index.ts';
import { ReleaseRuns } from '../agents/services.ts';
import type { AgentAddress } from '../../kernel/network/agent-address.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { type AgentEndpoint, endpointOf } from '../../agent-protocol/agent-endpoint.ts';
import { ContainerRuntime } from '../../runtime/runtime.ts';
import type { ContainerName } from '../../runtime/container.ts';
import { ContainerGone, RuntimeRefused } from '../../runtime/runtime.errors.ts';

/**
 * An address is cached for this time, in ms. An engine gives the address of an exited container to the next one that starts, which needs
 * longer than this to listen.
 */
const ADDRESS_CACHED_MS = 50;

/** Finds the addresses of running agents. One query to the engine serves all requests within a moment. */
@Injectable()
export class AgentAddresses {
  private readonly cache = new WeakMap<Agent, { until: number; address: Promise<AgentAddress> }>();

  constructor(
    private readonly runtime: ContainerRuntime,
    private readonly runs: ReleaseRuns,
  ) {}

  /** Returns the endpoint of an active agent. Locating it throws `agent_failed` if its container has no address, and `RuntimeUnavailable`. */
  endpointFor(agentId: string, agent: Agent): AgentEndpoint {
    const { port } = this.runs.of(agent.release);
    const { generation, accountId, activeSince } = agent;
    const container = { agentId, generation };
    return endpointOf({ ...container, accountId, activeSince }, port, () => this.address(agent, container, port));
  }

  private address(agent: Agent, container: ContainerName, port: number): Promise<AgentAddress> {
    const before = this.cache.get(agent);
    if (before !== undefined && performance.now() < before.until) return before.address;
    const address = this.runtime.address(container, port).catch((error: unknown) => {
      this.cache.delete(agent);
      if (error instanceof ContainerGone || error instanceof RuntimeRefused)
        throw new ProblemError('agent_failed', 'The agent can’t be reached.');
      throw error;
    });
    const entry = { until: Infinity, address };
    this.cache.set(agent, entry);
    const asked = performance.now();
    address.then(
      () => (entry.until = asked + ADDRESS_CACHED_MS),
      () => undefined,
    );
    return address;
  }
}
