import { Query } from '@nestjs/cqrs';

/** Returns the digests and ids among these whose images an agent runs, or may roll back to. The read models may be behind the log. */
export class NeededImages extends Query<ReadonlySet<string>> {
  constructor(readonly digests: readonly string[]) {
    super();
  }
}

/** Returns the SQL expression for the digest or id in a column of pins, as `digestOfPin` computes it. */
export function digestOfColumn(column: string): string {
  return `substr(${column}, strpos(${column}, '@') + 1)`;
}

/** The result of a sweep of unused images. */
export interface ImageSweepResult {
  ended_at: Date;
  /** The number of removed images. */
  removed: number;
  /** The sizes of these images together, in bytes. */
  removed_bytes: number;
  /** The number of images that no agent needs, but that a container or another image on the engine uses. */
  refused: number;
}

/** Returns the result of the last sweep of unused images; null if there was none. */
export class LastImageSweep extends Query<ImageSweepResult | null> {}
