/** Counts bytes that were read of an output. Returns null if the reading may go on, or a promise that resolves when it may. */
export type ReadPace = (bytes: number) => Promise<void> | null;

/** Bounds the reading of a container's output. */
export interface OutputBounds {
  /** Counts what is read and not yielded. */
  pace: ReadPace;
  /** Reserves memory in which a long line waits for its end. Returns the function that releases it, or null: the line is then cut. */
  reserve(bytes: number): (() => void) | null;
}
