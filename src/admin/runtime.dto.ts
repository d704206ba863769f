export class EngineContainer {
  agent_id: string;
  generation: number;
  deployment_id: string;
  /** As the engine has it. */
  state: 'created' | 'running' | 'frozen' | 'exited';
  /** As the log has the agent; null where there is no such agent. */
  agent_status: string | null;
  /** Of the container that is wanted; null where there is no such agent. */
  wanted_generation: number | null;
  /** `as_wanted`; `in_transit` while it is on its way; `drifted` where it is not as the log wants it; `orphan` where it has no right to be. */
  verdict: 'as_wanted' | 'in_transit' | 'drifted' | 'orphan';
}

export class MissingContainer {
  agent_id: string;
  agent_status: string;
}

export class Orphans {
  /** As `mooring-<agent>-g<generation>`: of agents that are no more, or of an older generation. */
  containers: string[];
  /** As `mooring-<agent>`: of agents that are no more. */
  volumes: string[];
}

export class RuntimeView {
  engine: 'docker' | 'local';
  containers: EngineContainer[];
  orphans: Orphans;
  /** Agents that should have a container and have none. */
  missing: MissingContainer[];
}
