/**
 * Counts the bytes of one volume: those that were found when it was measured last, and those that callers have written since. No writes
 * together, however many at once, get more room than there is.
 *
 * A measurement may or may not have seen what was written while it was made. That counts beside it, so that the count is too large rather
 * than too small until the next one.
 */
export class VolumeCount {
  /** The bytes that were found; null before the first measurement, `Infinity` if there is no room whatever was found. */
  private measured: number | null = null;
  private added = 0;
  /** The bytes of the writes that have not ended. */
  private unfinished = 0;
  /** The bytes that will have been added to the measurement that is being made; null while there is none. */
  private addedToNext: number | null = null;

  /** `unmeasuredMax` are the bytes that callers may write before the first measurement has ended. */
  constructor(
    private readonly most: number,
    private readonly unmeasuredMax: number,
  ) {}

  /** Counts the bytes if there is room for them. Returns whether there was. */
  reserve(bytes: number): boolean {
    const room = this.measured === null ? Math.min(this.unmeasuredMax, this.most) : this.most - this.measured;
    if (this.added + bytes > room) return false;
    this.added += bytes;
    this.unfinished += bytes;
    if (this.addedToNext !== null) this.addedToNext += bytes;
    return true;
  }

  /** Notes the end of a write that has reserved so many bytes. Those of one that has stored nothing are given back. */
  settle(bytes: number, isStored: boolean): void {
    this.unfinished -= bytes;
    if (isStored) return;
    // Both hold every write that has not ended.
    this.added -= bytes;
    if (this.addedToNext !== null) this.addedToNext -= bytes;
  }

  beginMeasuring(): void {
    this.addedToNext = this.unfinished;
  }

  /** Notes what a measurement has found; null if it found nothing out. */
  endMeasuring(bytes: number | null): void {
    if (bytes !== null) {
      this.measured = bytes;
      this.added = this.addedToNext ?? 0;
    }
    this.addedToNext = null;
  }
}
