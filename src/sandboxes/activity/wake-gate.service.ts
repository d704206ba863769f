/**
 * Gives access to live sandboxes: holds one awake while work runs, and wakes it first if it sleeps.
 *
 * Owns: the wakes in progress, and the sandboxes seen awake under a hold. Does not own holds (`Activity`) or the wake itself, which the
 * sandbox's saga executes.
 *
 * W1  The hold is committed before the state is read. So a saga that reads the holds after it requested a sleep sees this one, or this call
 *     sees the sleep (decisions/0020).
 * W2  However many callers need a sleeping sandbox, it is woken once. The signal of the caller that began the wake does not end it for
 *     others.
 * W3  A sandbox seen awake under a hold need not be read again while that row exists without a gap, until another event of its stream
 *     arrives or a gap in the log is reported.
 * W4  A caller of another account, or one that must not wake the sandbox, never keeps it awake.
 */
import { Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';

import { raceAbort } from '../../kernel/async/race-abort.ts';
import { START, type Position, type StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import { LogFollower } from '../../eventsourcing/log/log-follower.ts';
import type { Sandbox } from '../lifecycle/sandbox.rules.ts';
import { sandboxOfStream } from '../sandbox-id.ts';
import { Activity, type HeldRow } from './activity.service.ts';
import type { Need, Wakeable } from './wakeable.ts';
import { Wakeables } from './wakeables.ts';

/** The time after the stored deadline of the wake, in ms, by which the sandbox has settled in any case. */
const MARGIN_MS = 5_000;

interface Awake {
  sandbox: Sandbox;
  /** The value is true if the sandbox was not awake when it was requested. */
  woken: boolean;
}

/** Gives access to live sandboxes: holds one awake while the work runs, and wakes it first if it sleeps. */
@Injectable()
export class WakeGate implements OnModuleInit, OnModuleDestroy {
  /** Maps a sandbox to the wake that callers of this process share. */
  private readonly wakes = new Map<string, Promise<Awake>>();
  /** W3: Maps a row to the sandbox that was seen awake while the row held it. */
  private seenAwake = new WeakMap<HeldRow, Sandbox>();
  /** Maps a row to the position of the last event that arrived on the held sandbox's stream. */
  private receivedUpTo = new WeakMap<HeldRow, Position>();
  private stopListening = () => {};

  constructor(
    private readonly wakeables: Wakeables,
    private readonly follower: LogFollower,
    private readonly activity: Activity,
  ) {}

  onModuleInit(): void {
    this.stopListening = this.follower.listen({
      onEvents: (events) => this.onEvents(events),
      onGap: () => (this.seenAwake = new WeakMap()),
    });
  }

  onModuleDestroy(): void {
    this.stopListening();
  }

  /**
   * Runs the work with the sandbox awake. However many callers need it, a sleeping sandbox is woken once. Throws the kind's refusals of a
   * sandbox that is unknown, that must not be woken, or that is not awake 5 s after the deadline of its wake; the signal's reason if it
   * aborts before the sandbox is awake.
   */
  async whileAwake<T>(need: Need, work: (sandbox: Sandbox, woken: boolean) => Promise<T>): Promise<{ result: T; woken: boolean }> {
    const { sandboxId, accountId } = need;
    const kind = this.wakeables.of(sandboxId);
    // W4
    const seen = kind.requireOwned(this.seenAwakeUnder(this.activity.rowOf(sandboxId)) ?? (await kind.find(sandboxId)).state, accountId);
    if (need.wake === false && !kind.isAwake(seen)) throw kind.notAwake('asleep');
    // W1
    const hold = await this.activity.hold(sandboxId);
    try {
      const sandbox = this.seenAwakeUnder(hold.row);
      const awake = sandbox === null ? await this.ensureAwake(kind, need, hold.row, seen) : { sandbox, woken: false };
      return { result: await work(awake.sandbox, awake.woken), woken: awake.woken };
    } finally {
      hold.release();
    }
  }

  /** Returns whether the sandbox is awake, and has been since its container of that generation was started. */
  async isSameRun(sandboxId: string, generation: number): Promise<boolean> {
    const kind = this.wakeables.of(sandboxId);
    const { state } = await kind.find(sandboxId);
    return state !== null && kind.isAwake(state) && state.generation === generation;
  }

  private ensureAwake(kind: Wakeable, need: Need, row: HeldRow, seen: Sandbox): Promise<Awake> {
    return need.wake === false ? this.expectAwake(kind, need, row) : this.shareWake(kind, need, row, seen);
  }

  private async expectAwake(kind: Wakeable, { sandboxId }: Need, row: HeldRow): Promise<Awake> {
    const { seenAwake } = this;
    const { state, position } = await kind.find(sandboxId);
    if (state === null || !kind.isAwake(state)) throw kind.notAwake('asleep');
    this.remember(seenAwake, row, state, position);
    return { sandbox: state, woken: false };
  }

  /**
   * Begins a wake or joins the one in progress. The caller that began it reads the state under its own hold, and keeps that hold until
   * those who joined have theirs.
   */
  private shareWake(kind: Wakeable, need: Need, row: HeldRow, seen: Sandbox): Promise<Awake> {
    const { sandboxId, signal } = need;
    const shared = this.wakes.get(sandboxId) ?? this.wake(kind, need, row, seen).finally(() => this.wakes.delete(sandboxId));
    this.wakes.set(sandboxId, shared);
    return raceAbort(shared, signal);
  }

  /** W2: Wakes the sandbox. The signal of the caller that began the wake does not end it, because others wait for it too. */
  private async wake(kind: Wakeable, need: Need, row: HeldRow, seen: Sandbox): Promise<Awake> {
    const { seenAwake } = this;
    let woken = false;
    const sandbox = await kind.until(
      need.sandboxId,
      async () => {
        const { state, position } = await kind.wake(need);
        if (state === null || !kind.isAwake(state)) {
          woken = true;
          return undefined;
        }
        this.remember(seenAwake, row, state, position);
        return state;
      },
      { timeoutMs: kind.wakeSeconds(seen) * 1_000 + MARGIN_MS },
    );
    if (sandbox === null) throw kind.notAwake('late');
    return { sandbox, woken };
  }

  /** W3: Remembers what was read, unless a gap came after it, or an event that may be newer than the state. */
  private remember(seenAwake: WeakMap<HeldRow, Sandbox>, row: HeldRow, state: Sandbox, position: Position): void {
    if ((this.receivedUpTo.get(row) ?? START) <= position) seenAwake.set(row, state);
  }

  private seenAwakeUnder(row: HeldRow | null): Sandbox | null {
    return (row !== null && this.seenAwake.get(row)) || null;
  }

  private onEvents(events: readonly StoredEvent[]): void {
    for (const { stream, position } of events) {
      const sandboxId = sandboxOfStream(stream);
      const row = sandboxId === null ? null : this.activity.rowOf(sandboxId);
      if (sandboxId === null || row === null) continue;
      this.seenAwake.delete(row);
      this.receivedUpTo.set(row, position);
      // Most events end the container's run or put it to sleep. A replica that does so must not wait for a row that nobody here needs.
      void this.activity.releaseIdle(sandboxId);
    }
  }
}
