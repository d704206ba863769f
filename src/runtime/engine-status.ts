/** The state of the container engine, in sentences that strangers may read. */
export interface EngineStatus {
  /** The reason why no agent is started on the engine; null if agents are started. */
  lack: string | null;
  /** Faults that the operator can fix, and features that agents lack on this engine. */
  warnings: readonly string[];
}

/** The state of the enforcement of the operator's egress setting. Every value of the setting isolates agents and builds from each other. */
export interface EgressStatus {
  /** The reason why the setting can't be enforced; null if it is enforced. */
  lack: string | null;
  /** The reason why agents are not isolated from each other's frames on the link that they share; null if they are. */
  linkLack: string | null;
  /** The number of refused packets of agents by destination, at most a minute old. */
  refused: ReadonlyMap<string, number>;
  /**
   * The reason why the proxy of agents with an allowlist does not run, so that they can't reach anything; null if it runs, or is not
   * needed.
   */
  proxyLack: string | null;
  /** The number of refused requests of agents with an allowlist, by reason, at most a minute old. */
  refusedRequests: ReadonlyMap<string, number>;
}

/** The state of the builds of accounts' Dockerfiles. */
export interface DockerfileBuilds {
  /** The reason why no Dockerfile can be built; null if builds work, or none was tried yet. */
  lack: string | null;
  /** The sentence that names weaknesses in the isolation of builds; null if there are none. */
  weakness: string | null;
}
