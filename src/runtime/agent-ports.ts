/** The state of agents' ports that others than the service could reach. */
export interface AgentPorts {
  /** The reason why others are not kept from them, so that no agent starts; null if they are, or nobody has tried. */
  lack: string | null;
  /** The sentence that says what does not protect the messages to agents. */
  weakness: string;
}
