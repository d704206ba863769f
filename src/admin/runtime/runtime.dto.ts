export class EngineContainerDto {
  agent_id: string;
  generation: number;
  deployment_id: string;
  /** The state of the container in the engine. */
  state: 'created' | 'running' | 'frozen' | 'exited';
  /** The status of the agent in the log; null if there is no such agent. */
  agent_status: string | null;
  /** The generation of the desired container; null if there is no such agent. */
  wanted_generation: number | null;
  /**
   * The result of the comparison: `as_wanted`; `in_transit` during a transition; `drifted` if the state is not the desired one, or an
   * earlier release made the container; `orphan` if the agent is gone or the generation is stale.
   */
  verdict: 'as_wanted' | 'in_transit' | 'drifted' | 'orphan';
}

export class MissingContainerDto {
  agent_id: string;
  agent_status: string;
}

export class OrphansDto {
  /** The containers of deleted agents and of stale generations, by their ids on the engine. */
  containers: string[];
  /** The volumes of deleted agents, as `mooring-<agent>`. */
  volumes: string[];
}

export class ImageSpaceDto {
  count: number;
  /** The sizes together, in bytes. A layer that several images share counts in each; a file that images of the local runtime share counts once. */
  bytes: number;
}

export class ImageSweepDto {
  ended_at: Date;
  /** The number of images that were removed. */
  removed: number;
  removed_bytes: number;
  /** The number of images that no agent needs, but a container or another image on the engine. */
  refused: number;
}

export class EngineImagesDto {
  /** The images that this installation pulled or built for agents. */
  own: ImageSpaceDto;
  /** All images of the engine. */
  all: ImageSpaceDto;
  /** The last look for images that no agent needs; null if there was none yet. */
  last_sweep: ImageSweepDto | null;
}

export class RuntimeDto {
  engine: 'docker' | 'local';
  containers: EngineContainerDto[];
  orphans: OrphansDto;
  /** Agents that should have a container but have none. */
  missing: MissingContainerDto[];
  images: EngineImagesDto;
}
