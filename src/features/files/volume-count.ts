/**
 * Counts the bytes of one volume: those of the last measurement, and those that callers have written since. Concurrent writes together never get
 * more than the limit.
 *
 * A measurement may or may not include what was written while it ran. Those bytes are counted in addition, so that the count is too large rather
 * than too small until the next measurement.
 */
export class VolumeCount {
  /** The measured bytes; null before the first measurement, `Infinity` if the volume is full in another respect. */
  private measuredBytes: number | null = null;
  private addedBytes = 0;
  /** The bytes of writes that still run. */
  private runningBytes = 0;
  /** The bytes to add to the measurement that is running; null while none runs. */
  private addedToNextBytes: number | null = null;

  /** `unmeasuredMax` is the number of bytes that callers may write before the end of the first measurement. */
  constructor(
    private readonly limitBytes: number,
    private readonly unmeasuredMax: number,
  ) {}

  /** Reserves the bytes. Returns false if they would exceed the limit. */
  reserve(bytes: number): boolean {
    const room = this.measuredBytes === null ? Math.min(this.unmeasuredMax, this.limitBytes) : this.limitBytes - this.measuredBytes;
    if (this.addedBytes + bytes > room) return false;
    this.addedBytes += bytes;
    this.runningBytes += bytes;
    if (this.addedToNextBytes !== null) this.addedToNextBytes += bytes;
    return true;
  }

  /** Ends a write that has reserved the bytes. If it has stored nothing, they are released. */
  endWrite(bytes: number, isStored: boolean): void {
    this.runningBytes -= bytes;
    if (isStored) return;
    // Both numbers include every write that still runs.
    this.addedBytes -= bytes;
    if (this.addedToNextBytes !== null) this.addedToNextBytes -= bytes;
  }

  beginMeasuring(): void {
    this.addedToNextBytes = this.runningBytes;
  }

  /** Ends a measurement with its result; null if it failed. */
  endMeasuring(bytes: number | null): void {
    if (bytes !== null) {
      this.measuredBytes = bytes;
      this.addedBytes = this.addedToNextBytes ?? 0;
    }
    this.addedToNextBytes = null;
  }
}
