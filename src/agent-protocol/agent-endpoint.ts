import type { AgentAddress } from '../kernel/network/agent-address.ts';

/** A port of an agent's container. */
export interface AgentEndpoint {
  /** The container's name and the port. No other container ever has it. */
  readonly key: string;
  /** Returns the present address. */
  locate(): Promise<AgentAddress>;
}

/** Returns the port of a container. `locate` finds its address when a connection is made. */
export function endpointOf(
  { agentId, generation }: { agentId: string; generation: number },
  port: number,
  locate: AgentEndpoint['locate'],
): AgentEndpoint {
  return { key: `${agentId}/${generation}:${port}`, locate };
}

/** The address of the agent could not be found, for the reason in `cause`. */
export class AgentNotLocated extends Error {
  constructor(cause: unknown) {
    super('the address of the agent is not known', { cause });
    this.name = 'AgentNotLocated';
  }
}
