import { Query } from '@nestjs/cqrs';

/** Returns those of the pinned images that an agent runs, or could go back to. The read models may be behind the log. */
export class NeededImages extends Query<ReadonlySet<string>> {
  constructor(readonly pins: readonly string[]) {
    super();
  }
}

/** The result of a look for images that no agent needs. */
export interface ImageSweepResult {
  ended_at: Date;
  /** The number of images that it removed. */
  removed: number;
  /** The sizes of these images together, in bytes. */
  removed_bytes: number;
  /** The number of images that no agent needs, but a container or another image on the engine. */
  refused: number;
}

/** Returns the result of the last look for images that no agent needs; null if there was none. */
export class LastImageSweep extends Query<ImageSweepResult | null> {}
