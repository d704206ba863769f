/** The address of a port of an agent's container. */
export interface AgentAddress {
  host: string;
  port: number;
  /** The socket file of a SOCKS relay that is the only way to reach it. */
  relay?: string;
}
