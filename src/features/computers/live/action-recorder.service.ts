/*
 * Records that callers act on computers, as numbers alone: nothing of what was typed, clicked or seen is in an event.
 *
 * It owns the counts of this process that are not in the log yet. It does not own the aggregate that stores them (`Computers`).
 *
 * Invariants:
 * R1. A computer and actor cause at most one event a second. The first batch is recorded at once, before its caller is answered; those of
 *     the second that follows are counted together. Pictures without batches are counted for SCREENSHOTS_MS.
 * R2. The number of open counts and of writes is bounded by COUNTS_MAX. Beyond it the oldest count is written early, so nothing is lost.
 * R3. A write that fails is tried again ATTEMPTS_MAX times, and its failure never fails a batch.
 * R4. A service that stops writes all open counts first. A process that is killed loses those that it has not written.
 */

import { type BeforeApplicationShutdown, Injectable, Logger } from '@nestjs/common';

import type { CommandContext } from '../../../kernel/context/command-context.ts';
import { Computers } from '../aggregate/computers.service.ts';

/** R1: batches are counted together for this time, in ms. */
const BATCHES_MS = 1_000;
/** R1: pictures without batches are counted together for this time, in ms. */
const SCREENSHOTS_MS = 10_000;
/** The most counts that one process has open. */
const COUNTS_MAX = 5_000;
/** R3: the most attempts to store a count, and the wait between two of them, in ms. */
const ATTEMPTS_MAX = 10;
const RETRY_MS = 1_000;

/** The actions of a caller on a computer within a short time, only as numbers. */
interface ActionCounts {
  /** The number of actions by the name that callers gave. */
  actions: Record<string, number>;
  batches: number;
  screenshots: number;
  since: string;
  until: string;
}

/** A caller who acts on a computer. */
export interface Actor {
  computerId: string;
  context: CommandContext;
}

/** The actions of one actor on one computer that are not stored yet. */
interface OpenCount extends Actor {
  key: string;
  counted: ActionCounts;
  /** The value is true if a batch was recorded less than a second ago. */
  isRecorded: boolean;
  attempts: number;
  timer: NodeJS.Timeout | undefined;
}

/**
 * Records that callers act on computers, as numbers alone, with at most one event a second for each computer and actor. Pictures alone are
 * recorded every 10 s.
 */
@Injectable()
export class ActionRecorder implements BeforeApplicationShutdown {
  private readonly logger = new Logger('ActionRecorder');
  /** The open counts by computer and actor, the oldest first. */
  private readonly counts = new Map<string, OpenCount>();
  private readonly writing = new Set<Promise<void>>();
  private isStopping = false;

  constructor(private readonly computers: Computers) {}

  /** The number of counts that are open. */
  get size(): number {
    return this.counts.size;
  }

  /** Counts a batch that begins, of actions with these names. R1: resolves once it is recorded, if it is the first in a second. Never rejects. */
  async countBatch(actor: Actor, names: readonly string[], screenshots: number): Promise<void> {
    const count = this.countOf(actor, BATCHES_MS);
    for (const name of names) count.counted.actions[name] = (count.counted.actions[name] ?? 0) + 1;
    count.counted.batches += 1;
    this.add(count, actor, screenshots);
    if (!count.isRecorded) await this.record(count);
  }

  /** Counts a picture. */
  countScreenshot(actor: Actor): void {
    this.add(this.countOf(actor, SCREENSHOTS_MS), actor, 1);
  }

  /** R4 */
  async beforeApplicationShutdown(): Promise<void> {
    this.isStopping = true;
    for (const count of this.counts.values()) this.close(count);
    await Promise.allSettled(this.writing);
  }

  private countOf(actor: Actor, ms: number): OpenCount {
    const found = this.counts.get(keyOf(actor));
    if (found !== undefined) return found;
    const [oldest] = this.counts.values();
    // R2
    if (oldest !== undefined && this.counts.size >= COUNTS_MAX) this.close(oldest);
    const count: OpenCount = { ...actor, key: keyOf(actor), counted: emptyCounts(), isRecorded: false, attempts: 0, timer: undefined };
    this.counts.set(count.key, count);
    this.startInterval(count, ms);
    return count;
  }

  private add(count: OpenCount, { context }: Actor, screenshots: number): void {
    count.context = context;
    count.counted.screenshots += screenshots;
    count.counted.until = new Date().toISOString();
  }

  private startInterval(count: OpenCount, ms: number): void {
    clearTimeout(count.timer);
    count.timer = setTimeout(() => this.endInterval(count), ms).unref();
  }

  /** Ends an interval of counting. While there are batches, the next interval begins at once. */
  private endInterval(count: OpenCount): void {
    if (count.counted.batches > 0) void this.record(count);
    else this.close(count);
  }

  /** Records what was counted so far, and counts what comes within the next second. */
  private record(count: OpenCount): Promise<void> {
    const { counted } = count;
    count.counted = emptyCounts();
    count.isRecorded = true;
    this.startInterval(count, BATCHES_MS);
    return this.write({ ...count, counted });
  }

  private close(count: OpenCount): void {
    clearTimeout(count.timer);
    this.counts.delete(count.key);
    if (count.counted.batches + count.counted.screenshots > 0) void this.write(count);
  }

  private async write(count: OpenCount): Promise<void> {
    const { computerId, counted, context } = count;
    const writing = this.computers.execute(computerId, { type: 'RecordActed', ...counted }, context).then(
      () => undefined,
      (error: unknown) => this.retry(count, error),
    );
    this.writing.add(writing);
    await writing.finally(() => this.writing.delete(writing));
  }

  /** R3: keeps a count that could not be stored, for another attempt. */
  private retry(count: OpenCount, error: unknown): void {
    const attempts = count.attempts + 1;
    if (this.isStopping || attempts === ATTEMPTS_MAX || this.writing.size + this.counts.size >= COUNTS_MAX) {
      this.logger.warn({ msg: 'actions on a computer could not be recorded', computerId: count.computerId, err: error });
      return;
    }
    setTimeout(() => void this.write({ ...count, attempts }), RETRY_MS * attempts).unref();
  }
}

function keyOf({ computerId, context: { actor } }: Actor): string {
  return `${computerId} ${actor.kind} ${actor.id}`;
}

function emptyCounts(): ActionCounts {
  const now = new Date().toISOString();
  return { actions: {}, batches: 0, screenshots: 0, since: now, until: now };
}
