import { availableParallelism } from 'node:os';

import { Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { LRUCache } from 'lru-cache';

import { sharesOf } from '../../../kernel/limits/account-counter.ts';
import { FairLimiter } from '../../../kernel/limits/fair-limiter.ts';
import { pause } from '../../../kernel/async/pause.ts';
import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { Refusal } from '../../../kernel/errors/refusal.ts';
import { categoryOf, idOf, type StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { LogFollower } from '../../../eventsourcing/log/log-follower.ts';
import type { Point } from '../../../desktop/actions/canonical-actions.ts';
import { DesktopDriver } from '../../../desktop/driver/desktop-driver.ts';
import { encodeImage } from '../../../desktop/screen/encode-image.ts';
import { DesktopDialler } from './desktop-dialler.service.ts';
import { desktopRefusal } from './desktop-refusals.ts';
import { FrameMemory, type FrameKeeper } from './frame-memory.ts';
import { DesktopTurns } from './desktop-turns.service.ts';
import { type AwakeComputer, LiveComputers } from './live-computers.service.ts';

/** The time after its last use at which a connection is closed, ms. */
const IDLE_MS = 60_000;
/** The wait between looks for the first frame, which doubles, and the longest, ms. */
const LOOK_MS = { first: 5, last: 50 };
/** The events after which no connection to the computer's container is of use. */
const ENDS = new Set(['ComputerSlept', 'ComputerExited', 'ComputerFailed', 'ComputerDeletionRequested', 'ComputerDeleted']);
/** The desktops whose pointers are remembered while there is no connection to them. */
const POINTERS_MAX = 10_000;
const CORES = availableParallelism();
/** The pictures that one process encodes at once; an account may have half of them. */
const ENCODERS = sharesOf(CORES, { account: 1 / 2 });

/** A desktop while somebody uses it. */
export interface DesktopInUse {
  driver: DesktopDriver;
  /** Aborts when the caller has gone, and when the computer is awake no more. */
  signal: AbortSignal;
  /** Takes room in memory for a picture until the use ends. Returns false if there is none. */
  hold: (bytes: number) => boolean;
}

interface Seat extends FrameKeeper {
  computerId: string;
  generation: number;
  driver: DesktopDriver;
  users: number;
  ending: AbortController;
  idle: NodeJS.Timeout | undefined;
}

/**
 * Drives the desktops of computers that are awake, each by one connection, which is opened at the first use and closed when it was not used
 * for a minute, or when the log says that the computer is awake no more.
 */
@Injectable()
export class DesktopPool implements OnModuleInit, OnApplicationShutdown {
  /** A test sets a shorter time. */
  idleMs = IDLE_MS;
  private readonly seats = new Map<string, Seat>();
  /** The places of the pointers of awake and frozen computers, which no desktop tells to those who connect. */
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
      onGap: () => this.dropUnused(),
    });
  }

  onApplicationShutdown(): void {
    this.stopListening();
    for (const { computerId } of this.seats.values()) this.drop(computerId);
  }

  /** The number of desktops to which there is a connection, or was one just now. */
  get size(): number {
    return this.seats.size;
  }

  /**
   * Runs the work on the desktop of a computer that is held awake. Throws `busy`, `desktop_unreachable` and `desktop_timeout`,
   * `coordinate_out_of_bounds` for a part that is not on the screen, and the signal's reason.
   */
  async use<T>(computer: AwakeComputer, signal: AbortSignal, work: (desktop: DesktopInUse) => Promise<T>): Promise<T> {
    const seat = this.seatOf(computer);
    const { driver, accountId } = seat;
    const holds: (() => void)[] = [];
    const hold = (bytes: number) => {
      const release = this.memory.tryReserve(accountId, bytes);
      if (release !== null) holds.push(release);
      return release !== null;
    };
    seat.users += 1;
    clearTimeout(seat.idle);
    try {
      return await work({ driver, signal: AbortSignal.any([signal, seat.ending.signal]), hold });
    } catch (error) {
      throw desktopRefusal(seat.ending.signal.aborted ? seat.ending.signal.reason : error);
    } finally {
      for (const release of holds) release();
      this.leave(seat);
    }
  }

  /**
   * Waits until the desktop of the computer answers with a frame, at most so long (ms). Returns false if it does not. Throws the signal's
   * reason.
   */
  async firstFrame(computer: AwakeComputer, ms: number, signal: AbortSignal): Promise<boolean> {
    const patience = timeoutSignal(ms);
    const either = AbortSignal.any([signal, patience]);
    for (let wait = LOOK_MS.first; ; wait = Math.min(2 * wait, LOOK_MS.last)) {
      const isThere = await this.use(computer, either, (desktop) => desktop.driver.answers(desktop.signal)).catch(unreachable);
      if (isThere) return true;
      await pause(wait, either);
      signal.throwIfAborted();
      if (patience.aborted) return false;
    }
  }

  /** Releases whatever a process that ended in the middle of a batch may have left held down. Throws what `use` throws. */
  async releaseInput(computer: AwakeComputer, signal: AbortSignal): Promise<void> {
    await this.use(computer, signal, (desktop) => desktop.driver.releaseInput(desktop.signal));
  }

  /** Tells whoever acts on the computer where somebody moved its pointer. */
  movePointer(computerId: string, place: Point): void {
    this.pointers.set(computerId, place);
    void this.seats.get(computerId)?.driver.movePointer(place);
  }

  private seatOf({ computerId, accountId, generation }: AwakeComputer): Seat {
    const found = this.seats.get(computerId);
    if (found !== undefined && found.generation === generation) return found;
    this.drop(computerId);
    const ending = new AbortController();
    const driver = new DesktopDriver({
      dial: (signal) => this.dialler.dial({ computerId, accountId, generation }, AbortSignal.any([signal, ending.signal])),
      encode: (frame, options) =>
        this.encoders.run({ account: accountId, agent: computerId }, ending.signal, () => encodeImage(frame, options)),
      reserve: (bytes, signal) => this.memory.reserve(accountId, bytes, signal),
      pointer: this.pointers.get(computerId) ?? null,
      turn: (signal) => this.turns.acquire(computerId, generation, AbortSignal.any([signal, ending.signal])),
    });
    const forget = () => driver.forgetFrames();
    const seat: Seat = { computerId, accountId, generation, driver, users: 0, ending, idle: undefined, forget };
    this.seats.set(computerId, seat);
    return seat;
  }

  private leave(seat: Seat): void {
    seat.users -= 1;
    if (this.seats.get(seat.computerId) !== seat) return;
    this.memory.keep(seat, seat.driver.keptBytes);
    const { place } = seat.driver;
    if (place !== null) this.pointers.set(seat.computerId, place);
    // The next connection would release a button that is to stay down.
    if (seat.users === 0 && !seat.driver.holdsButton) seat.idle = setTimeout(() => this.drop(seat.computerId), this.idleMs).unref();
  }

  /** Closes the connection, and ends what uses it. */
  private drop(computerId: string): void {
    const seat = this.seats.get(computerId);
    if (seat === undefined) return;
    this.seats.delete(computerId);
    clearTimeout(seat.idle);
    seat.ending.abort(new Refusal('desktop_unreachable', 'The computer is awake no more: it was put to sleep or deleted, or it ended.'));
    this.memory.drop(seat);
    void seat.driver.close();
    void this.turns.release(computerId);
  }

  /** A connection in use breaks by itself if its computer is awake no more. */
  private dropUnused(): void {
    for (const { computerId, users } of this.seats.values()) if (users === 0) this.drop(computerId);
  }

  private onEvents(events: readonly StoredEvent[]): void {
    for (const { stream, type, data } of events) {
      if (!ENDS.has(type) || categoryOf(stream) !== 'computer') continue;
      const isFrozen = type === 'ComputerSlept' && (data as { depth?: unknown } | undefined)?.depth === 'frozen';
      if (!isFrozen) this.forgetInput(idOf(stream));
      void this.onEnd(idOf(stream));
    }
  }

  /** A desktop that begins has its pointer in the middle. */
  private forgetInput(computerId: string): void {
    this.pointers.delete(computerId);
    void this.turns.forget(computerId);
  }

  /** The event may be older than the use, which began when the computer was awake again. */
  private async onEnd(computerId: string): Promise<void> {
    const seat = this.seats.get(computerId);
    if (seat === undefined) return;
    const isAwake = seat.users > 0 && (await this.computers.isAwake(computerId, seat.generation).catch(() => false));
    if (!isAwake && this.seats.get(computerId) === seat) this.drop(computerId);
  }
}

/** A desktop that begins refuses connections, or does not answer yet. */
function unreachable(error: unknown): false {
  if (error instanceof Refusal && (error.code === 'desktop_unreachable' || error.code === 'desktop_timeout')) return false;
  if (error instanceof DOMException && error.name === 'TimeoutError') return false;
  throw error;
}
