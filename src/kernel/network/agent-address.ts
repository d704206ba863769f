/** The address of a port of an agent's container. */
export interface AgentAddress {
  host: string;
  port: number;
  /** The socket file of a SOCKS relay through which alone it can be reached. */
  relay?: string;
}
