import { ContainerGone, RuntimeRefused } from '../runtime.ts';
import { call } from './engine.ts';

/** How long an answer of the engine, or its silence, is taken to hold, ms. */
const TRUSTED_MS = 1_000;
const SILENCE_TRUSTED_MS = 250;
/** An engine that accepts a connection and says nothing for so long counts as away, ms. */
const SILENT_AFTER_MS = 900;

/**
 * Remembers whether the engine answered lately. Nobody watches the engine: whoever calls it tells what came of that, and a ping is
 * sent only where someone asks and nothing was told a moment ago, so an idle service costs nothing.
 */
export class EngineHealth {
  private answeredAt = -Infinity;
  private silentAt = -Infinity;
  private asking: Promise<boolean> | null = null;

  constructor(private readonly ping: (signal: AbortSignal) => Promise<unknown>) {}

  /** Never throws; answers within a second. */
  async available(): Promise<boolean> {
    const now = performance.now();
    if (now - this.answeredAt < TRUSTED_MS) return true;
    if (now - this.silentAt < SILENCE_TRUSTED_MS) return false;
    this.asking ??= this.ask().finally(() => (this.asking = null));
    return this.asking;
  }

  /** Passes on what the call comes to, and remembers whether the engine answered it. */
  async hears<T>(work: () => Promise<T>): Promise<T> {
    try {
      const answer = await work();
      this.answered();
      return answer;
    } catch (error) {
      if (error instanceof ContainerGone || error instanceof RuntimeRefused) this.answered();
      else this.doubt();
      throw error;
    }
  }

  answered(): void {
    this.answeredAt = performance.now();
  }

  /** Something failed that may be the engine's end: whoever asks next has it looked at. */
  doubt(): void {
    this.answeredAt = -Infinity;
  }

  private async ask(): Promise<boolean> {
    const asked = performance.now();
    try {
      await call(null, this.ping, SILENT_AFTER_MS);
      this.answered();
      return true;
    } catch {
      // A busy engine may be late with the ping while it answers others.
      if (this.answeredAt > asked) return true;
      this.silentAt = performance.now();
      return false;
    }
  }
}
