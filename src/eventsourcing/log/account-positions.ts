import { Injectable } from '@nestjs/common';

import { categoryOf, matches, START, type EventFilter, type Position, type StoredEvent } from '../event-store/event-store.ts';
import { LogFollower } from './log-follower.ts';

/** The most positions that are remembered, one per account and type of event: about 8 MB. */
const REMEMBERED_MAX = 50_000;

/** The positions that a read model has to have reached before it may answer an account. */
export interface AccountPosition {
  /** The position of the last event of the account, whoever caused it; `START` if there is none. */
  last: Position;
  /** The position of the last event that the account caused itself, by a key or a session; `START` if there may be none. */
  written: Position;
}

/** The last positions of one type of event. */
interface OfType extends AccountPosition {
  category: string;
  type: string;
}

/**
 * Remembers the positions of the last events of each account, whichever replica stored them, as far as this process has received the log
 * (see `LogFollower.catchUpToHead`). Positions are kept per type of event, so that no request waits for a read model because of events that do
 * not concern it.
 */
@Injectable()
export class AccountPositions {
  /** The accounts, the one that changed longest ago first. */
  private readonly byAccount = new Map<string, Map<string, OfType>>();
  private readonly ofAll = new Map<string, OfType>();
  private remembered = 0;
  /** No event of an account that is not remembered comes after this position. */
  private evictedUpTo: Position = START;

  constructor(follower: LogFollower) {
    follower.listen({ onEvents: (events) => events.forEach((event) => this.onEvent(event)), onGap: (from) => this.clear(from) });
  }

  /** Returns the last positions of the account's events that pass the filter; of all accounts' events if the account is null. */
  of(accountId: string | null, filter: EventFilter): AccountPosition {
    const isWanted = matches(filter);
    const found: AccountPosition = { last: this.evictedUpTo, written: START };
    const known = accountId === null ? this.ofAll : this.byAccount.get(accountId);
    for (const { category, type, last, written } of known?.values() ?? []) {
      // A category stands for each of its streams.
      if (!isWanted({ stream: category, type })) continue;
      if (last > found.last) found.last = last;
      if (written > found.written) found.written = written;
    }
    return found;
  }

  private onEvent({ stream, type, position, metadata }: StoredEvent): void {
    const { account_id: accountId, actor } = metadata;
    const heard = { category: categoryOf(stream), type, last: position, written: actor.kind === 'system' ? START : position };
    note(this.ofAll, { ...heard, written: START });
    if (accountId === null) return;
    const ofAccount = this.byAccount.get(accountId) ?? new Map<string, OfType>();
    this.byAccount.delete(accountId);
    this.byAccount.set(accountId, ofAccount);
    this.remembered += note(ofAccount, heard);
    while (this.remembered > REMEMBERED_MAX) this.evictOldest();
  }

  private evictOldest(): void {
    for (const [accountId, ofAccount] of this.byAccount) {
      this.byAccount.delete(accountId);
      this.remembered -= ofAccount.size;
      for (const { last } of ofAccount.values()) if (last > this.evictedUpTo) this.evictedUpTo = last;
      return;
    }
  }

  /** Forgets all positions: any account may have events up to `from`. */
  private clear(from: Position): void {
    this.byAccount.clear();
    this.ofAll.clear();
    this.remembered = 0;
    this.evictedUpTo = from;
  }
}

/** Returns the number of entries that it added: 0 or 1. */
function note(known: Map<string, OfType>, received: OfType): number {
  const key = `${received.category} ${received.type}`;
  const before = known.get(key);
  if (before === undefined) {
    known.set(key, received);
    return 1;
  }
  before.last = received.last;
  if (received.written > START) before.written = received.written;
  return 0;
}
