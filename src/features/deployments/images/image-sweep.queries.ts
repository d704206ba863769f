import { Query } from '@nestjs/cqrs';

/** Returns those of the digests and ids whose images an agent runs, or could go back to. The read models may be behind the log. */
export class NeededImages extends Query<ReadonlySet<string>> {
  constructor(readonly digests: readonly string[]) {
    super();
  }
}

/** Returns the SQL of the digest or id in a column of pins, as `digestOfPin` returns it. */
export function digestOfColumn(column: string): string {
  return `substr(${column}, strpos(${column}, '@') + 1)`;
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
