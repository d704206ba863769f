import { type Limits, sharesOf } from '../../../kernel/limits/account-counter.ts';
import { FairLimiter } from '../../../kernel/limits/fair-limiter.ts';

const MIB = 1_048_576;
/** The bytes of frames and pictures of desktops that one process has in memory; an account may have half of them. */
const LIMITS = sharesOf(256 * MIB, { account: 1 / 2 });

/** Keeps frames to use them again, until others need the room. */
export interface FrameKeeper {
  readonly accountId: string;
  forget(): void;
}

/**
 * Bounds the memory of frames and pictures. What is in use has its room until it is released. What is kept to be used again has what is left,
 * and the one that was used the longest ago makes room first, one of the same account if it is that account's limit which is reached.
 */
export class FrameMemory {
  private readonly bytes: FairLimiter;
  /** The keepers, the one that was used the longest ago first, with what releases their room. */
  private readonly kept = new Map<FrameKeeper, () => void>();

  constructor(limits: Limits = LIMITS) {
    this.bytes = new FairLimiter(limits);
  }

  get inUse(): number {
    return this.bytes.inUse;
  }

  /** Resolves when there is room, with a function that releases it. Rejects with the signal's reason. */
  reserve(accountId: string, bytes: number, signal: AbortSignal): Promise<() => void> {
    this.makeRoom(accountId, bytes);
    return this.bytes.acquire({ account: accountId }, signal, bytes);
  }

  /** Does as `reserve` if there is room at once; otherwise returns null. */
  tryReserve(accountId: string, bytes: number): (() => void) | null {
    this.makeRoom(accountId, bytes);
    return this.bytes.tryAcquire({ account: accountId }, bytes);
  }

  /** Counts what the keeper keeps from now on. It has to forget it at once if others wait for the room. */
  keep(keeper: FrameKeeper, bytes: number): void {
    this.drop(keeper);
    if (bytes === 0) return;
    const release = this.tryReserve(keeper.accountId, bytes);
    if (release === null) keeper.forget();
    else this.kept.set(keeper, release);
  }

  /** Ends the counting of what the keeper has kept. */
  drop(keeper: FrameKeeper): void {
    const release = this.kept.get(keeper);
    this.kept.delete(keeper);
    release?.();
  }

  private makeRoom(accountId: string, bytes: number): void {
    for (;;) {
      const lacking = this.bytes.lacking({ account: accountId }, bytes);
      if (lacking === null) return;
      const keeper = [...this.kept.keys()].find((each) => lacking === 'all' || each.accountId === accountId);
      if (keeper === undefined) return;
      keeper.forget();
      this.drop(keeper);
    }
  }
}
