/** The state of the container engine, in sentences that strangers may read. */
export interface EngineStatus {
  /** The reason why no agent is started on it; null if agents are. */
  lack: string | null;
  /** Faults that the operator can mend, and what agents lack on it. */
  warnings: readonly string[];
}

/** The state of the enforcement of the operator's egress setting, by whose every value agents and builds reach none of each other. */
export interface EgressStatus {
  /** The reason why it can't be enforced; null if it is. */
  lack: string | null;
  /** The reason why agents are not kept from each other's frames on the link that they share; null if they are. */
  linkLack: string | null;
  /** The number of refused packets of agents by destination, at most a minute old. */
  refused: ReadonlyMap<string, number>;
  /** The reason why the proxy of agents with a list of names does not run, so that they reach nothing; null if it runs, or none is needed. */
  proxyLack: string | null;
  /** The number of requests of agents with a list of names that were refused, by reason, at most a minute old. */
  refusedRequests: ReadonlyMap<string, number>;
}

/** The state of the builds of accounts' Dockerfiles. */
export interface DockerfileBuilds {
  /** The reason why none can be built; null if they can, or nobody has tried. */
  lack: string | null;
  /** The sentence that says what keeps builds from each other less than it could; null if nothing does. */
  weakness: string | null;
}
