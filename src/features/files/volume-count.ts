/**
 * Counts the bytes of one volume: those of the last measurement, and those that callers have written since. Concurrent writes together never get
 * more than the limit.
 *
 * A measurement may or may not include what was written while it ran. Those bytes are counted in addition, so that the count is too large rather
 * than too small until the next measurement.
 */
export class VolumeCount {
  /** The measured bytes; null before the first measurement, `Infinity` if the volume is full in another respect. */
  private measured: number | null = null;
  private added = 0;
  /** The bytes of writes that still run. */
  private unfinished = 0;
  /** The bytes to add to the measurement that is running; null while none runs. */
  private addedToNext: number | null = null;

  /** `unmeasuredMax` is the number of bytes that callers may write before the end of the first measurement. */
  constructor(
    private readonly most: number,
    private readonly unmeasuredMax: number,
  ) {}

  /** Reserves the bytes. Returns false if they would exceed the limit. */
  reserve(bytes: number): boolean {
    const room = this.measured === null ? Math.min(this.unmeasuredMax, this.most) : this.most - this.measured;
    if (this.added + bytes > room) return false;
    this.added += bytes;
    this.unfinished += bytes;
    if (this.addedToNext !== null) this.addedToNext += bytes;
    return true;
  }

  /** Ends a write that has reserved the bytes. If it has stored nothing, they are released. */
  settle(bytes: number, isStored: boolean): void {
    this.unfinished -= bytes;
    if (isStored) return;
    // Both numbers include every write that still runs.
    this.added -= bytes;
    if (this.addedToNext !== null) this.addedToNext -= bytes;
  }

  beginMeasuring(): void {
    this.addedToNext = this.unfinished;
  }

  /** Ends a measurement with its result; null if it failed. */
  endMeasuring(bytes: number | null): void {
    if (bytes !== null) {
      this.measured = bytes;
      this.added = this.addedToNext ?? 0;
    }
    this.addedToNext = null;
  }
}
