/*
 * Drives the desktops of computers that are awake: callers get a `DesktopDriver` for the time of one piece of work.
 *
 * It owns one connection for each desktop that this process uses, the memory of pictures, the threads that encode them, and the places of
 * the pointers. It does not own what is done on a desktop (`DesktopDriver`), the right to put input into it (`DesktopTurns`), or keeping
 * the computer awake (its callers hold it).
 *
 * Invariants:
 * D1. There is at most one connection from this process to a desktop, of the container's present generation.
 * D2. A connection closes IDLE_MS after its last use, and when the log says that the computer is not awake any more. It does not close
 *     while a button is to stay pressed, because the next connection would release the button.
 * D3. An event may be older than the use: a connection in use is closed only if the computer really is not awake in that generation.
 * D4. Pictures in memory and pictures being encoded are bounded for this process and for each account (`FrameMemory`, ENCODERS).
 * D5. The place of a pointer survives its connection, for as long as the container runs or is frozen; a desktop does not report it to a new
 *     client.
 */

import { availableParallelism } from 'node:os';

import { Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { LRUCache } from 'lru-cache';

import { sharesOf } from '../../../kernel/limits/account-counter.ts';
import { FairLimiter } from '../../../kernel/limits/fair-limiter.ts';
import { pause } from '../../../kernel/async/pause.ts';
import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import { categoryOf, idOf, type StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { LogFollower } from '../../../eventsourcing/log/log-follower.ts';
import type { Point } from '../../../desktop/actions/canonical-actions.ts';
import { DesktopDriver } from '../../../desktop/driver/desktop-driver.ts';
import { encodeImage } from '../../../desktop/screen/encode-image.ts';
import { DesktopDialler } from './desktop-dialler.service.ts';
import { desktopRefusal } from './desktop-refusals.ts';
import { FrameMemory, type FrameCache } from './frame-memory.ts';
import { DesktopTurns } from './desktop-turns.service.ts';
import { type AwakeComputer, LiveComputers } from './live-computers.service.ts';

/** A connection is closed this long after its last use, in ms. */
const IDLE_MS = 60_000;
/** The first and the longest wait between attempts to get the first frame, in ms. The wait doubles. */
const POLL_MS = { first: 5, last: 50 };
/** The events that end the container, and with it every connection to its desktop. */
const ENDING_EVENTS = new Set(['ComputerSlept', 'ComputerExited', 'ComputerFailed', 'ComputerDeletionRequested', 'ComputerDeleted']);
/** The number of desktops without a connection whose pointers are remembered. */
const POINTERS_MAX = 10_000;
const CORES = availableParallelism();
/** The pictures that one process encodes at once; an account may have half of them. */
const ENCODERS = sharesOf(CORES, { account: 1 / 2 });

/** A desktop, for the time of one use. */
export interface DesktopInUse {
  driver: DesktopDriver;
  /** Aborts when the caller has gone, or when the computer is not awake any more. */
  signal: AbortSignal;
  /** Reserves memory for a picture until the use ends. Returns false if there is none. */
  reserveImage: (bytes: number) => boolean;
}

interface PooledDesktop extends FrameCache {
  computerId: string;
  generation: number;
  driver: DesktopDriver;
  users: number;
  ending: AbortController;
  idle: NodeJS.Timeout | undefined;
}

/**
 * Drives the desktops of computers that are awake. It opens a connection at the first use of a desktop, and closes it after a minute without
 * use, or when the log says that the computer is not awake any more.
 */
@Injectable()
export class DesktopPool implements OnModuleInit, OnApplicationShutdown {
  /** A test sets a shorter time. */
  idleMs = IDLE_MS;
  private readonly desktops = new Map<string, PooledDesktop>();
  /** D5: the places of the pointers of awake and frozen computers. */
  private readonly pointers = new LRUCache<string, Point>({ max: POINTERS_MAX });
  private readonly memory = new FrameMemory();
  private readonly encoders = new FairLimiter(ENCODERS);
  private stopListening = () => {};

  constructor(
    private readonly dialler: DesktopDialler,
    private readonly follower: LogFollower,
    private readonly computers: LiveComputers,
    private readonly turns: DesktopTurns,
  ) {}

  onModuleInit(): void {
    this.stopListening = this.follower.listen({
      onEvents: (events) => this.onEvents(events),
      onGap: () => this.closeUnused(),
    });
  }

  onApplicationShutdown(): void {
    this.stopListening();
    for (const { computerId } of this.desktops.values()) this.close(computerId);
  }

  /** The number of desktops in use, or used within the last minute. */
  get size(): number {
    return this.desktops.size;
  }

  /**
   * Runs the work on the desktop of a computer that is held awake. Throws `busy`, `desktop_unreachable` and `desktop_timeout`,
   * `coordinate_out_of_bounds` for a part that is not on the screen, and the signal's reason.
   */
  async use<T>(computer: AwakeComputer, signal: AbortSignal, work: (desktop: DesktopInUse) => Promise<T>): Promise<T> {
    const seat = this.desktopOf(computer);
    const { driver, accountId } = seat;
    const releases: (() => void)[] = [];
    const reserveImage = (bytes: number) => {
      const release = this.memory.tryReserve(accountId, bytes);
      if (release !== null) releases.push(release);
      return release !== null;
    };
    seat.users += 1;
    clearTimeout(seat.idle);
    try {
      return await work({ driver, signal: AbortSignal.any([signal, seat.ending.signal]), reserveImage });
    } catch (error) {
      throw desktopRefusal(seat.ending.signal.aborted ? seat.ending.signal.reason : error);
    } finally {
      for (const release of releases) release();
      this.endUse(seat);
    }
  }

  /**
   * Waits up to `ms` until the computer's desktop answers with a frame. Returns false if it does not answer. Throws the signal's reason.
   */
  async waitForFirstFrame(computer: AwakeComputer, withinMs: number, signal: AbortSignal): Promise<boolean> {
    const timeout = timeoutSignal(withinMs);
    const either = AbortSignal.any([signal, timeout]);
    for (let wait = POLL_MS.first; ; wait = Math.min(2 * wait, POLL_MS.last)) {
      const isAnswered = await this.use(computer, either, (desktop) => desktop.driver.checkAnswers(desktop.signal)).catch(
        falseIfUnreachable,
      );
      if (isAnswered) return true;
      await pause(wait, either);
      signal.throwIfAborted();
      if (timeout.aborted) return false;
    }
  }

  /** Releases the keys and buttons that a process may have left pressed when it ended during a batch. Throws what `use` throws. */
  async releaseInput(computer: AwakeComputer, signal: AbortSignal): Promise<void> {
    await this.use(computer, signal, (desktop) => desktop.driver.releaseInput(desktop.signal));
  }

  /** Updates the place of the pointer after a person moved it. */
  movePointer(computerId: string, place: Point): void {
    this.pointers.set(computerId, place);
    void this.desktops.get(computerId)?.driver.movePointer(place);
  }

  private desktopOf({ computerId, accountId, generation }: AwakeComputer): PooledDesktop {
    // D1
    const found = this.desktops.get(computerId);
    if (found !== undefined && found.generation === generation) return found;
    this.close(computerId);
    const ending = new AbortController();
    const driver = new DesktopDriver({
      dial: (signal) => this.dialler.dial({ computerId, accountId, generation }, AbortSignal.any([signal, ending.signal])),
      encode: (frame, options) =>
        this.encoders.run({ account: accountId, agent: computerId }, ending.signal, () => encodeImage(frame, options)),
      reserve: (bytes, signal) => this.memory.reserve(accountId, bytes, signal),
      pointer: this.pointers.get(computerId) ?? null,
      turn: (signal) => this.turns.acquire(computerId, generation, AbortSignal.any([signal, ending.signal])),
    });
    const evict = () => driver.evictFrames();
    const seat: PooledDesktop = { computerId, accountId, generation, driver, users: 0, ending, idle: undefined, evict };
    this.desktops.set(computerId, seat);
    return seat;
  }

  private endUse(seat: PooledDesktop): void {
    seat.users -= 1;
    if (this.desktops.get(seat.computerId) !== seat) return;
    this.memory.trackCached(seat, seat.driver.keptBytes);
    const { pointerPosition } = seat.driver;
    if (pointerPosition !== null) this.pointers.set(seat.computerId, pointerPosition);
    // D2
    if (seat.users === 0 && !seat.driver.holdsButton) seat.idle = setTimeout(() => this.close(seat.computerId), this.idleMs).unref();
  }

  /** Closes the connection, and ends what uses it. */
  private close(computerId: string): void {
    const seat = this.desktops.get(computerId);
    if (seat === undefined) return;
    this.desktops.delete(computerId);
    clearTimeout(seat.idle);
    seat.ending.abort(
      new ProblemError('desktop_unreachable', 'The computer is awake no more: it was put to sleep or deleted, or it ended.'),
    );
    this.memory.untrack(seat);
    void seat.driver.close();
    void this.turns.release(computerId);
  }

  /** After a gap in the log, connections in use stay: they break by themselves if their computer is not awake any more. */
  private closeUnused(): void {
    for (const { computerId, users } of this.desktops.values()) if (users === 0) this.close(computerId);
  }

  private onEvents(events: readonly StoredEvent[]): void {
    for (const { stream, type, data } of events) {
      if (!ENDING_EVENTS.has(type) || categoryOf(stream) !== 'computer') continue;
      const isFrozen = type === 'ComputerSlept' && (data as { depth?: unknown } | undefined)?.depth === 'frozen';
      if (!isFrozen) this.evictInput(idOf(stream));
      void this.onEnd(idOf(stream));
    }
  }

  /** D5: a desktop that starts has its pointer in the middle of the screen. */
  private evictInput(computerId: string): void {
    this.pointers.delete(computerId);
    void this.turns.deleteInput(computerId);
  }

  /** D3: closes the connection, unless the computer is awake again and the connection is in use. */
  private async onEnd(computerId: string): Promise<void> {
    const seat = this.desktops.get(computerId);
    if (seat === undefined) return;
    const isAwake = seat.users > 0 && (await this.computers.isAwake(computerId, seat.generation).catch(() => false));
    if (!isAwake && this.desktops.get(computerId) === seat) this.close(computerId);
  }
}

/** Returns false for the errors of a desktop that is still starting; rethrows others. */
function falseIfUnreachable(error: unknown): false {
  if (error instanceof ProblemError && (error.code === 'desktop_unreachable' || error.code === 'desktop_timeout')) return false;
  if (error instanceof DOMException && error.name === 'TimeoutError') return false;
  throw error;
}
