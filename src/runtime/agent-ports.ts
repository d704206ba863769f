/** The state of agents' ports that clients other than the service could reach. */
export interface AgentPorts {
  /**
   * The reason why other clients are not kept away from the ports, so that no agent starts; null if they are, or if it was not tried yet.
   */
  lack: string | null;
  /** The sentence that names the weakness in the protection of messages to agents. */
  weakness: string;
}
