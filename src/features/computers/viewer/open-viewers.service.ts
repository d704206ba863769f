/*
 * The viewers whose connections this process serves, and what they may do at the moment.
 *
 * It owns the relays of this process, by computer. It does not own the sessions (viewers.decider.ts), the sockets (`ViewerSockets`), or
 * connections of other replicas.
 *
 * Invariants:
 * O1. A viewer's right to send input follows the newest state of its session: it is read when the viewer is added, after each event of the
 *     computer's sessions, and after a gap in the log. If several reads overlap, only the last one counts.
 * O2. A viewer whose session ends is disconnected with the reason, on whatever replica the session was closed.
 * O3. When this replica loses its database session, it disconnects all viewers, because other replicas then count them as ended.
 */

import { Injectable, Logger, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';

import { categoryOf, idOf, type StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { LogFollower } from '../../../eventsourcing/log/log-follower.ts';
import { CLOSE } from '../../../http/server/close-codes.ts';
import { AccountCounter } from '../../../kernel/limits/account-counter.ts';
import { Replica } from '../../../postgres/leases/replica.ts';
import type { ViewerRelay } from './viewer-relay.ts';
import { ViewerRecords } from './viewer-records.service.ts';
import { CLOSED, mayControl } from './viewers.decider.ts';
import type { ViewerEvent } from './viewers.events.ts';

/** A viewer whose connection this process serves. */
export interface OpenViewer {
  sessionId: string;
  computerId: string;
  accountId: string;
  relay: ViewerRelay;
}

interface ComputerViewers {
  viewers: Set<OpenViewer>;
  /** O1: the number of reads of the state. The result of any but the latest is outdated. */
  reads: number;
}

/** The viewers of this process. It disconnects those whose sessions end, and gives and takes control. */
@Injectable()
export class OpenViewers implements OnModuleInit, OnModuleDestroy {
  private readonly logger = new Logger('OpenViewers');
  private readonly byComputer = new Map<string, ComputerViewers>();
  private readonly ofAccount = new AccountCounter();
  private stopListening = () => {};

  constructor(
    private readonly records: ViewerRecords,
    private readonly follower: LogFollower,
    private readonly replica: Replica,
  ) {}

  onModuleInit(): void {
    this.stopListening = this.follower.listen({
      onEvents: (events) => this.onEvents(events),
      onGap: () => this.byComputer.forEach((_, computerId) => void this.applyState(computerId)),
    });
    // O3. The pages connect again by themselves.
    this.replica.onLost(() => this.disconnectAll());
  }

  onModuleDestroy(): void {
    this.stopListening();
  }

  /** Keeps the viewer until its connection ends. O1: events since the caller read the session are caught up. */
  add(viewer: OpenViewer): void {
    const { computerId, accountId } = viewer;
    const ofComputer = this.byComputer.get(computerId) ?? { viewers: new Set(), reads: 0 };
    ofComputer.viewers.add(viewer);
    this.byComputer.set(computerId, ofComputer);
    const release = this.ofAccount.acquire({ account: accountId });
    void viewer.relay.ended.then(() => {
      release();
      ofComputer.viewers.delete(viewer);
      if (ofComputer.viewers.size === 0 && this.byComputer.get(computerId) === ofComputer) this.byComputer.delete(computerId);
    });
    void this.applyState(computerId);
  }

  /** Returns the number of the account's viewers in this process. */
  countOf(accountId: string): number {
    return this.ofAccount.of(accountId);
  }

  private onEvents(events: readonly StoredEvent[]): void {
    const changed = new Set<string>();
    for (const stored of events) {
      if (categoryOf(stored.stream) !== 'viewer') continue;
      const computerId = idOf(stored.stream);
      const viewers = this.byComputer.get(computerId)?.viewers;
      if (viewers === undefined) continue;
      changed.add(computerId);
      const event = stored as unknown as ViewerEvent;
      if (event.type !== 'ViewerClosed') continue;
      const { session_id, reason } = event.data;
      for (const { sessionId, relay } of viewers) if (sessionId === session_id) relay.endSession(reason, CLOSED[reason]);
    }
    for (const computerId of changed) void this.applyState(computerId);
  }

  /** O1: reads the state of the computer's sessions, and applies it to its viewers. */
  private async applyState(computerId: string): Promise<void> {
    const ofComputer = this.byComputer.get(computerId);
    if (ofComputer === undefined) return;
    ofComputer.reads += 1;
    const look = ofComputer.reads;
    try {
      const state = await this.records.load(computerId);
      if (look !== ofComputer.reads) return;
      for (const { sessionId, relay } of ofComputer.viewers) {
        const isOpen = state?.sessions.some(({ id }) => id === sessionId) ?? false;
        const reason = state?.ended.find(({ id }) => id === sessionId)?.reason ?? 'closed';
        if (isOpen) relay.setInput(mayControl(state, sessionId));
        else relay.endSession(reason, CLOSED[reason]);
      }
    } catch (error) {
      this.logger.warn({ msg: 'the sessions of a computer could not be read for its viewers', computer_id: computerId, err: error });
    }
  }

  private disconnectAll(): void {
    for (const { viewers } of this.byComputer.values())
      for (const { relay } of viewers) relay.close(CLOSE.goingAway, 'The service lost its database for a while. Connect again.');
  }
}
