/**
 * Folds the log into the rows of several projections by reading it once.
 *
 * Owns: the requested folds, and the one pass that runs in this process. Does not own the tables that the rows go to (`ProjectionRebuild`)
 * or the rows themselves (`BoundedFold`).
 *
 * F1  One pass runs at a time. Its bound on memory holds for all folds together; beyond it the rows of the largest folds go to disk.
 * F2  A pass waits a bounded time for folds that are expected, so that the read models of one start are folded from one reading.
 * F3  A member that fails or is canceled leaves the pass, and the others continue. Each request settles exactly once.
 * F4  The pass never blocks the event loop for long: after each slice it yields, for longer the busier the process is.
 */
import { setImmediate as yieldToEventLoop } from 'node:timers/promises';

import { pause } from '../../../kernel/async/pause.ts';
import {
  type EventClass,
  type EventFilter,
  type EventStore,
  type Position,
  START,
  type StoredEvent,
  matches,
} from '../../event-store/event-store.ts';
import { BoundedFold, type FoldBounds } from './bounded-fold.ts';
import type { Projection } from '../projection.ts';

/** F4: The longest slice for which the fold may block the event loop, in ms: a share of the last yield, within these bounds. */
const SLICE_MS = 2;
const SLICE_MS_MAX = 10;
const YIELD_FRACTION = 1 / 3;
const SLICE_EVENTS = 100;
/**
 * F4: A turn of the event loop that took longer than this, in ms, had other work to do. The loop then gets another turn, up to this many.
 */
const BUSY_MS = 0.3;
const TURNS_MAX = 6;
/** The number of folds whose rows are written at the same time, each on a connection of its own. */
export const WRITERS = 2;
/** F2: The longest time that a pass waits for expected folds of the same log to join it, in ms. */
const EXPECTED_WAIT_MS_MAX = 5_000;
/** The size at which the text of final rows is written while the fold continues, in bytes. */
const FINAL_BYTES = 1024 * 1024;

/** A requested fold of the log. */
export interface FoldRequest {
  projection: Projection;
  /** The position of the last event to fold; null means the last event when the pass begins. */
  end: Position | null;
  signal: AbortSignal;
  /** Called when the pass begins, with the position at which it will end. */
  onBegin(end: Position): Promise<void>;
  onProgress(events: number, upTo: Position): Promise<void>;
  /** Receives rows that no later event changes, as the text of a COPY, while the fold continues. */
  add(text: Buffer): Promise<void>;
  /** Receives the rows of the fold that were not added before. F1: The next pass begins only after this. */
  write(fold: BoundedFold): Promise<void>;
}

interface Member extends FoldRequest {
  /** Returns whether the event passes the projection's filter. */
  wants(event: StoredEvent): boolean;
  /** Settles when the rows being added are written. */
  adding: Promise<void>;
  settle(error: unknown): void;
}

/** The passes over the log of this process. See F1 to F4. */
export class LogPasses {
  private readonly waiting: Member[] = [];
  private readonly expected = new Set<Projection>();
  private running = false;

  constructor(
    private readonly store: EventStore,
    private readonly bounds: FoldBounds,
    /** The time that a pass waits for another fold after the last one was requested, in ms. */
    private readonly gatherMs: number,
    private readonly delay: (ms: number) => Promise<unknown> = pause,
  ) {}

  /** F2: Announces a projection that may have to be folded soon. A pass waits for it until the fold is requested or withdrawn. */
  expect(projection: Projection): void {
    this.expected.add(projection);
  }

  withdraw(projection: Projection): void {
    this.expected.delete(projection);
  }

  /** Resolves when the rows are written. Throws `PoisonEvent`, the signal's reason, or what `write` or the store threw. */
  fold(wanted: FoldRequest): Promise<void> {
    return new Promise((resolve, reject) => {
      this.expected.delete(wanted.projection);
      const wants = matches(wanted.projection.filter);
      this.waiting.push({ ...wanted, wants, adding: Promise.resolve(), settle: (error) => (error === null ? resolve() : reject(error)) });
      void this.run();
    });
  }

  private async run(): Promise<void> {
    if (this.running) return;
    this.running = true;
    while (this.waiting.length > 0) {
      await this.waitForExpected();
      const [first] = this.waiting;
      const eventClass = first?.projection.filter.eventClass;
      const members = this.waiting.filter(({ projection }) => projection.filter.eventClass === eventClass);
      for (const member of members) this.waiting.splice(this.waiting.indexOf(member), 1);
      if (eventClass !== undefined) await new LogPass(this.store, this.bounds, eventClass, members).run();
    }
    this.running = false;
  }

  private async waitForExpected(): Promise<void> {
    const mayCome = (known: number) => this.expected.size > 0 || this.waiting.length > known;
    for (let waited = 0, known = 0; waited < EXPECTED_WAIT_MS_MAX && mayCome(known); waited += this.gatherMs) {
      known = this.waiting.length;
      await this.delay(this.gatherMs);
    }
  }
}

/** One reading of the log. See F3. */
class LogPass {
  private readonly folds = new Map<Member, BoundedFold>();
  private since = performance.now();
  private slice = SLICE_MS;

  constructor(
    private readonly store: EventStore,
    private readonly bounds: FoldBounds,
    private readonly eventClass: EventClass,
    members: Member[],
  ) {
    for (const member of members) this.folds.set(member, new BoundedFold(member.projection, bounds));
  }

  /** Runs the pass. It never throws: each member gets its own error. */
  async run(): Promise<void> {
    try {
      const head = await this.store.head(this.eventClass);
      await this.each((member) => member.onBegin(member.end ?? head));
      const ends = [...this.folds.keys()].map(({ end }) => end ?? head);
      const last = ends.toSorted().at(-1) ?? START;
      for await (const { events, upTo } of this.store.readBulk(START, last, this.union())) {
        if (this.folds.size === 0) return;
        for (let from = 0; from < events.length; from += SLICE_EVENTS) await this.apply(events.slice(from, from + SLICE_EVENTS));
        await this.each((member) => member.onProgress(events.length, upTo));
      }
      await this.write();
    } catch (error) {
      await Promise.all([...this.folds.keys()].map((member) => this.removeMember(member, error)));
    }
  }

  private async write(): Promise<void> {
    const left = [...this.folds];
    const writer = async () => {
      for (let next = left.shift(); next !== undefined; next = left.shift()) {
        const [member, fold] = next;
        await this.attempt(member, async () => {
          await member.adding;
          await member.write(fold);
        });
        await this.removeMember(member, null);
      }
    };
    await Promise.all(Array.from({ length: WRITERS }, writer));
  }

  private async apply(events: StoredEvent[]): Promise<void> {
    for (const [member, fold] of this.folds) {
      const { end } = member;
      const own = events.filter((event) => member.wants(event) && (end === null || event.position <= end));
      await this.attempt(member, () => fold.apply(own));
      if (fold.finalBytes >= FINAL_BYTES) await this.attempt(member, () => this.add(member, fold));
    }
    await this.spillLargest();
    if (performance.now() - this.since < this.slice) return;
    this.slice = Math.min(Math.max(SLICE_MS, (await yieldToOtherWork()) * YIELD_FRACTION), SLICE_MS_MAX);
    this.since = performance.now();
  }

  /** Writes the final rows while the next ones are folded. */
  private async add(member: Member, fold: BoundedFold): Promise<void> {
    await member.adding;
    member.adding = member.add(fold.drainFinal());
    // The error is thrown at the next `await` of `adding`.
    member.adding.catch(() => undefined);
  }

  /** Moves the rows of the largest folds to disk if all together take too much memory. */
  private async spillLargest(): Promise<void> {
    let bytes = 0;
    for (const { spilled, bytes: taken } of this.folds.values()) if (!spilled) bytes += taken;
    if (bytes <= this.bounds.memoryBytes) return;
    const inMemory = [...this.folds].filter(([, { spilled }]) => !spilled);
    for (const [member, fold] of inMemory.toSorted(([, one], [, other]) => other.bytes - one.bytes)) {
      if (bytes <= this.bounds.memoryBytes) return;
      bytes -= fold.bytes;
      await this.attempt(member, () => fold.spillToDisk());
    }
  }

  private union(): EventFilter {
    const filters = [...this.folds.keys()].map(({ projection }) => projection.filter);
    return {
      eventClass: this.eventClass,
      ...unionOf(
        'categories',
        filters.map(({ categories }) => categories),
      ),
      ...unionOf(
        'types',
        filters.map(({ types }) => types),
      ),
    };
  }

  private async each(work: (member: Member) => Promise<void>): Promise<void> {
    for (const member of this.folds.keys()) await this.attempt(member, () => work(member));
  }

  private async attempt(member: Member, work: () => Promise<void>): Promise<void> {
    try {
      member.signal.throwIfAborted();
      await work();
    } catch (error) {
      await this.removeMember(member, error);
    }
  }

  private async removeMember(member: Member, error: unknown): Promise<void> {
    const fold = this.folds.get(member);
    this.folds.delete(member);
    await member.adding.catch(() => undefined);
    await fold?.close().catch(() => undefined);
    if (fold !== undefined) member.settle(error);
  }
}

/** Returns the union of the filters, and an empty filter if one of them has no restriction. */
function unionOf(
  name: 'categories' | 'types',
  lists: (readonly string[] | undefined)[],
): Partial<Pick<EventFilter, 'categories' | 'types'>> {
  const all = new Set<string>();
  for (const list of lists) {
    if (list === undefined) return {};
    for (const each of list) all.add(each);
  }
  return { [name]: [...all] };
}

/**
 * F4: Yields to other work in this process. A request needs several database calls one after the other, and would wait for a slice of the
 * fold before each. If there is no other work, this takes no time. Returns the time that it took, in ms.
 */
export async function yieldToOtherWork(): Promise<number> {
  const since = performance.now();
  for (let turn = 0; turn < TURNS_MAX; turn += 1) {
    const began = performance.now();
    await yieldToEventLoop();
    if (performance.now() - began < BUSY_MS) break;
  }
  return performance.now() - since;
}
