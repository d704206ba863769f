import type { AgentAddress } from '../kernel/network/agent-address.ts';
import type { AgentOfAccount } from './kept-sockets.ts';

/** A port of an agent's container. */
export interface AgentEndpoint extends AgentOfAccount {
  /** The name of the container's run, and the port. No other container ever has it, nor this one after it was started or thawed again. */
  readonly key: string;
  /** Returns the present address. */
  locate(): Promise<AgentAddress>;
}

/** The container of an agent since it was started or woken the last time. */
export interface AgentRun extends AgentOfAccount {
  generation: number;
  activeSince: string | null;
}

/** Returns the port of a container. `locate` finds its address when a connection is made. */
export function endpointOf(
  { agentId, accountId, generation, activeSince }: AgentRun,
  port: number,
  locate: AgentEndpoint['locate'],
): AgentEndpoint {
  return { key: `${agentId}/${generation}/${activeSince}:${port}`, agentId, accountId, locate };
}

/** The address of the agent could not be found, for the reason in `cause`. */
export class AgentNotLocated extends Error {
  constructor(cause: unknown) {
    super('the address of the agent is not known', { cause });
    this.name = 'AgentNotLocated';
  }
}
