/** The agent, or the computer, and its status in the log. */
export class OwnerDto {
  /** The value is null if the container is a computer’s. */
  agent_id: string | null;
  /** The value is null if the container is an agent’s. */
  computer_id: string | null;
  /** The status of the agent in the log; null if there is no such agent, or the container is a computer’s. */
  agent_status: string | null;
  /** The status of the computer in the log; null if there is no such computer, or the container is an agent’s. */
  computer_status: string | null;
}

export class EngineContainerDto extends OwnerDto {
  generation: number;
  /** The value is null if the container is a computer’s. */
  deployment_id: string | null;
  /** The state of the container in the engine. */
  state: 'created' | 'running' | 'frozen' | 'exited';
  /** The generation of the desired container; null if there is no such agent or computer. */
  wanted_generation: number | null;
  /**
   * The result of the comparison: `as_wanted`; `in_transit` during a transition; `drifted` if the state is not the desired one, or an
   * earlier release created the container; `orphan` if the agent or the computer is gone or the generation is stale.
   */
  verdict: 'as_wanted' | 'in_transit' | 'drifted' | 'orphan';
}

export class MissingContainerDto extends OwnerDto {}

export class OrphansDto {
  /** The containers of deleted agents and computers, and of stale generations, by their ids on the engine. */
  containers: string[];
  /** The volumes of deleted agents, as `mooring-<agent>`, and computers, as `mooring-computer-<computer>`. */
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
  /** The number of images that no agent needs, but that a container or another image on the engine uses. */
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
  /** Agents and computers that should have a container but have none. */
  missing: MissingContainerDto[];
  images: EngineImagesDto;
}
