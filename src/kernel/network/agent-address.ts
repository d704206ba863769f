/** The address of a port of an agent's container. */
export interface AgentAddress {
  host: string;
  port: number;
  /** The port on which the agent's program listens, if the engine publishes it under another number. */
  programPort?: number;
  /** The socket file of a SOCKS relay that is the only way to reach it. */
  relay?: string;
}

/** Returns the port as the agent's program knows it. */
export function programPortOf({ port, programPort = port }: AgentAddress): number {
  return programPort;
}
