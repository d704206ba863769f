/** Frames below this size are counted, bytes: larger ones are paid by the credit for their bytes. */
export const SMALL_FRAME_BYTES = 1_024;
const FRAMES_PER_SECOND = 10_000;
const FRAMES_AT_ONCE = 20_000;

/** The small frames that one agent may have taken apart: each costs the service time, whatever it says. */
export class FrameRate {
  private left = FRAMES_AT_ONCE;
  private at: number;

  constructor(nowMs: number) {
    this.at = nowMs;
  }

  /** Counts the frames. Returns the time for which nothing more is to be read, ms. */
  spend(frames: number, nowMs: number): number {
    this.left = Math.min(FRAMES_AT_ONCE, this.left + ((nowMs - this.at) / 1_000) * FRAMES_PER_SECOND) - frames;
    this.at = nowMs;
    return this.left >= 0 ? 0 : Math.ceil((-this.left / FRAMES_PER_SECOND) * 1_000);
  }
}
