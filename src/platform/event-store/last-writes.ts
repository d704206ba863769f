import { Injectable } from '@nestjs/common';

import { START, type Position, type StoredEvent } from './event-store.ts';
import { LogFollower } from './log-follower.ts';

/** Accounts whose last write is remembered. */
const REMEMBERED = 10_000;

export interface LastWrite {
  position: Position;
  /** False where the account may not have written so far: its own last write is forgotten, or older than this process. */
  isOwn: boolean;
}

/** How far each account has written, on whatever replica. */
@Injectable()
export class LastWrites {
  /** The longest unchanged first. */
  private readonly byAccount = new Map<string, Position>();
  private others: Position = START;

  constructor(private readonly follower: LogFollower) {
    follower.listen({ onEvents: (events) => this.hear(events), onGap: (from) => this.forget(from) });
  }

  /** The account has written up to there, here. */
  note(accountId: string, position: Position): void {
    const before = this.byAccount.get(accountId) ?? this.others;
    if (position <= before) return;
    this.byAccount.delete(accountId);
    this.byAccount.set(accountId, position);
    if (this.byAccount.size <= REMEMBERED) return;
    const [oldest] = this.byAccount;
    if (oldest === undefined) return;
    this.byAccount.delete(oldest[0]);
    if (oldest[1] > this.others) this.others = oldest[1];
  }

  /** Where a reader of the account has to have come. Throws `read_model_behind` where the log is not heard in time. */
  async of(accountId: string): Promise<LastWrite> {
    // A store that is away takes no writes: what is known is all.
    await this.follower.hearHead();
    const own = this.byAccount.get(accountId);
    return { position: own ?? this.others, isOwn: own !== undefined };
  }

  private hear(events: readonly StoredEvent[]): void {
    for (const { position, metadata } of events)
      if (metadata.account_id !== null && metadata.actor.kind !== 'system') this.note(metadata.account_id, position);
  }

  /** Any account may have written up to there. */
  private forget(from: Position): void {
    this.byAccount.clear();
    this.others = from;
  }
}
