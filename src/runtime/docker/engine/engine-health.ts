import { ContainerGone, RuntimeRefused } from '../../runtime.errors.ts';
import { call } from './engine.ts';

/** The time for which a response of the engine, or the lack of one, is trusted, in ms. */
const TRUSTED_MS = 1_000;
const SILENCE_TRUSTED_MS = 250;
/** An engine that accepts a connection but sends nothing for this time counts as unavailable, in ms. */
const SILENT_AFTER_MS = 900;

/**
 * Remembers whether the engine responded recently. There is no polling: every call to the engine reports its outcome here, and a ping is
 * sent only if a caller asks and nothing was reported just before. So an idle service costs nothing.
 */
export class EngineHealth {
  private answeredAt = -Infinity;
  private silentAt = -Infinity;
  private checking: Promise<boolean> | null = null;

  constructor(private readonly ping: (signal: AbortSignal) => Promise<unknown>) {}

  /** Returns within a second whether the engine responds. Never throws. */
  async available(): Promise<boolean> {
    const now = performance.now();
    if (now - this.answeredAt < TRUSTED_MS) return true;
    if (now - this.silentAt < SILENCE_TRUSTED_MS) return false;
    this.checking ??= this.checkNow().finally(() => (this.checking = null));
    return this.checking;
  }

  /** Returns or throws the outcome of the call, and remembers whether the engine responded to it. */
  async observe<T>(work: () => Promise<T>): Promise<T> {
    try {
      const answer = await work();
      this.noteResponse();
      return answer;
    } catch (error) {
      if (error instanceof ContainerGone || error instanceof RuntimeRefused) this.noteResponse();
      else this.invalidate();
      throw error;
    }
  }

  noteResponse(): void {
    this.answeredAt = performance.now();
  }

  /** Notes a failure that may mean that the engine is unavailable: the next caller of `available` pings it. */
  invalidate(): void {
    this.answeredAt = -Infinity;
  }

  private async checkNow(): Promise<boolean> {
    const asked = performance.now();
    try {
      await call(null, this.ping, SILENT_AFTER_MS);
      this.noteResponse();
      return true;
    } catch {
      // A busy engine may respond late to the ping while it responds to other calls.
      if (this.answeredAt > asked) return true;
      this.silentAt = performance.now();
      return false;
    }
  }
}
