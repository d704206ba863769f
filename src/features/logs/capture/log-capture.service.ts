/*
 * Copies the output of containers from the engine into the log, one stream of events for each agent.
 *
 * It owns the followers of this process and the cursors in the events. It does not own which containers have to be followed (`LogsSaga`),
 * what is kept (`LineBound`, logs/retention/), or how lines are parsed (output/log-line.ts).
 *
 * Invariants:
 * L1. No line is lost or repeated. Each batch is appended at the revision that it continues, together with the cursor of its last line, and
 *     a follower starts after the last cursor in the stream. So a restart, or two processes that capture the same container, do no harm.
 * L2. An agent has at most one follower in this process. The follower of an older container ends before that of a newer one starts.
 * L3. A follower ends when its signal aborts, after the lines that it has read are appended.
 * L4. Reading is bounded by the account's share of this process (`ReadShare`) and by the rate of one container (`LineRate`). Lines that are
 *     left out are reported in the log.
 * L5. A line that the store refuses is replaced, so that it does not stop the capture of what follows.
 */

import { Injectable, Logger } from '@nestjs/common';
import { v5 as uuidv5 } from 'uuid';
import {
  EventStore,
  EventStoreUnavailable,
  OutcomeUnknown,
  StreamClosed,
  WrongExpectedRevision,
  type NewEvent,
} from '../../../eventsourcing/event-store/event-store.ts';
import { AccountCounter, sharesOf } from '../../../kernel/limits/account-counter.ts';
import { ContainerRuntime, type LogLine } from '../../../runtime/runtime.ts';
import type { ContainerName, ContainerView } from '../../../runtime/container.ts';
import { ContainerGone, RuntimeUnavailable } from '../../../runtime/runtime.errors.ts';
import { Backoff } from '../../../kernel/async/retry.ts';
import { pause } from '../../../kernel/async/pause.ts';
import { ReadShare } from '../../../kernel/limits/read-share.ts';
import { Intervals } from '../../../kernel/config/intervals.ts';
import type { CaptureCursor, CapturedLine } from '../output/logs.events.ts';
import { leftOut, readLogLine } from '../output/log-line.ts';
import { Batcher } from './batcher.ts';
import { LineRate, skippedLinesSummary, linesOf, linesOfLength } from './line-rate.ts';
import { keptLinesOf, LineBound, totalOf } from '../retention/line-bound.ts';

const CAPTURE_NAMESPACE = '0d3b1c52-94c5-4f6c-8f0c-0e6a4d2b7f1e';
/** The longest delay before a failed follower restarts, in ms. The delay doubles with each failure. */
const RETRY_DELAY_MS_MAX = 10_000;
/** The age up to which output is kept. `LineBound` bounds its number of lines as well. */
export const RETENTION = { maxAgeSeconds: 7 * 24 * 3600 };
/** The output of all containers is appended at multiples of this time, in ms, so that one commit holds much of it. */
const APPEND_INTERVAL_MS = 500;

/** The memory in which long lines of running agents wait for their end, in bytes. */
const LONG_LINES_BYTES = 64 * 1024 * 1024;

interface Follower {
  generation: number;
  /** Aborts when another process takes over the container. */
  until: AbortSignal;
  done: Promise<void>;
}

interface CapturePosition {
  revision: number;
  /** The number of lines up to here, since the agent's first, as `keptLinesOf` counts them. */
  total: number;
  cursor: CaptureCursor | null;
}

/**
 * Copies the output of containers into the log, without loss or repetition. After a crash, a follower continues exactly after the last line
 * that was appended.
 */
@Injectable()
export class LogCapture {
  private readonly logger = new Logger(LogCapture.name);
  private readonly followers = new Map<string, Follower>();
  private readonly stopping = new AbortController();
  private readonly longLines = new AccountCounter(sharesOf(LONG_LINES_BYTES));

  constructor(
    private readonly events: EventStore,
    private readonly runtime: ContainerRuntime,
    private readonly bound: LineBound,
    private readonly share: ReadShare,
    private readonly intervals: Intervals = new Intervals(),
  ) {}

  /**
   * Makes sure that the container's output is captured until the signal aborts, after which another process does it. An agent has one
   * follower: that of an older container finishes first.
   */
  async follow(container: ContainerView, account: string, signal: AbortSignal): Promise<void> {
    await this.follower(container, account, AbortSignal.any([signal, this.stopping.signal]));
  }

  /** Returns whether this process captures the container's output. */
  isFollowing({ agentId, generation }: ContainerName): boolean {
    const follower = this.followers.get(agentId);
    return follower?.generation === generation && !follower.until.aborted;
  }

  /** Returns whether all output of an exited container is in the log within 5 s. Must be called before the container is removed. */
  async drain(container: ContainerView, account: string): Promise<boolean> {
    const over = new AbortController();
    const inTime = await Promise.race([
      this.captureToEnd(container, account),
      pause(this.intervals.drainMs, over.signal).then(() => false),
    ]);
    over.abort();
    return inTime;
  }

  /** Ends every follower, after the lines that it has read are appended. */
  async stop(): Promise<void> {
    this.stopping.abort();
    await Promise.allSettled([...this.followers.values()].map((follower) => follower.done));
  }

  /** Captures the output to its end. Returns false if the process stops first. A follower that ends because its lease moved is replaced. */
  private async captureToEnd(container: ContainerView, account: string): Promise<boolean> {
    const { signal } = this.stopping;
    for (let follower = null as Follower | null; !signal.aborted && (follower === null || follower.until.aborted);) {
      follower = await this.follower(container, account, signal);
      if (follower === null) return true;
      await follower.done;
    }
    return !signal.aborted;
  }

  /** Returns the follower of the container, and starts it if there is none; null if a newer container is followed already. */
  private async follower(container: ContainerView, account: string, until: AbortSignal): Promise<Follower | null> {
    const { agentId, generation } = container;
    // L2
    for (let current = this.followers.get(agentId); current !== undefined; current = this.followers.get(agentId)) {
      if (current.generation > generation) return null;
      if (current.generation === generation && !current.until.aborted) return current;
      await current.done;
    }
    const follower: Follower = { generation, until, done: Promise.resolve() };
    follower.done = this.captureWithRetries(container, account, until).finally(() => {
      if (this.followers.get(agentId) === follower) this.followers.delete(agentId);
    });
    this.followers.set(agentId, follower);
    return follower;
  }

  /** Captures the output, and starts again after a failure as long as the container may print more. */
  private async captureWithRetries(container: ContainerView, account: string, signal: AbortSignal): Promise<void> {
    const backoff = new Backoff({ firstMs: this.intervals.captureRetryMs, lastMs: RETRY_DELAY_MS_MAX });
    while (!signal.aborted) {
      const began = performance.now();
      try {
        await this.capture(container, account, signal).finally(() => {
          // A capture that ran well for a while starts again with the first delay.
          if (performance.now() - began > RETRY_DELAY_MS_MAX) backoff.reset();
        });
        // The stream also ends when the engine stops.
        const { containers } = await this.runtime.inspect(container.agentId, container.generation);
        const now = containers.find(({ handle }) => handle === container.handle);
        if (now?.state !== 'running' && now?.state !== 'frozen') return;
      } catch (error) {
        if (error instanceof ContainerGone || error instanceof StreamClosed) return;
        // L1: another process captures the same container. This one continues after the lines that the other has appended.
        const isCaptured = error instanceof WrongExpectedRevision;
        if (!isCaptured && !(error instanceof RuntimeUnavailable) && !signal.aborted)
          this.logger.warn(`log capture of agent ${container.agentId} begins again in ${backoff.ms} ms: ${String(error)}`);
      }
      await backoff.pause(signal);
    }
  }

  private async capture(container: ContainerView, account: string, signal: AbortSignal): Promise<void> {
    const stream = `log-${container.agentId}`;
    const place = await this.positionOf(stream);
    if (place.cursor !== null && place.cursor.generation > container.generation) return;
    const after = place.cursor?.generation === container.generation ? place.cursor : null;
    const rate = new LineRate();
    const left = new AbortController();
    const reading = AbortSignal.any([signal, left.signal]);
    const paced = this.share.reader(account, reading);
    const batcher = new Batcher<LogLine>({
      maxItems: 500,
      maxBytes: 128 * 1024,
      maxWaitMs: 1_000,
      alignToMs: APPEND_INTERVAL_MS,
      bytesOf: (line) => line.text.length + 40,
      pace: (line) => paced(linesOf(line.text)),
      skipping: { skips: (line) => rate.exceeds(line), summarize: skippedLinesSummary },
    });
    const bounds = {
      pace: (bytes: number) => paced(linesOfLength(bytes)),
      reserve: (bytes: number) => this.longLines.tryAcquire({ account }, bytes),
    };
    const filled = batcher.fill(this.runtime.logs(container.handle, after, reading, bounds));
    try {
      for await (const lines of batcher.batches()) await this.append(stream, place, lines);
    } finally {
      left.abort();
      await filled;
    }
  }

  private async positionOf(stream: string): Promise<CapturePosition> {
    for await (const last of this.events.readStream(stream, { backwards: true, limit: 1 }))
      return { revision: last.revision, total: totalOf(last), cursor: (last.data as { cursor?: CaptureCursor }).cursor ?? null };
    return { revision: -1, total: 0, cursor: null };
  }

  /** Appends lines. L5: a line that the store refuses is replaced by one that says so, because the store would refuse it again. */
  private async append(stream: string, place: CapturePosition, lines: LogLine[]): Promise<void> {
    try {
      await this.store(stream, place, lines, lines.map(readLogLine));
    } catch (error) {
      if (isTransient(error)) throw error;
      if (lines.length === 1) return this.store(stream, place, lines, lines.map(leftOut));
      const half = lines.length / 2;
      await this.append(stream, place, lines.slice(0, half));
      await this.append(stream, place, lines.slice(half));
    }
  }

  private async store(stream: string, place: CapturePosition, lines: LogLine[], captured: CapturedLine[]): Promise<void> {
    const last = lines.at(-1);
    if (last === undefined) return;
    const before = place.total;
    const total = before + lines.reduce((sum, line) => sum + keptLinesOf(line.text), 0);
    const event: NewEvent = {
      id: uuidv5(`${stream}:${place.revision + 1}:${JSON.stringify(last.cursor)}`, CAPTURE_NAMESPACE),
      type: 'LogLinesCaptured',
      schemaVersion: 1,
      data: { lines: captured, cursor: { ...last.cursor }, total },
      metadata: { actor: { kind: 'system', id: 'logs', name: 'logs' }, account_id: null, request_id: null, causation_id: null, ip: null },
    };
    if (place.revision < 0) await this.events.setRetention(stream, RETENTION);
    // L1
    place.revision = (await this.events.append(stream, place.revision < 0 ? 'no_stream' : place.revision, [event])).revision;
    place.total = total;
    await this.bound.enforce(stream, place.revision, before, total);
  }
}

/** Returns whether the store may accept the same event later. */
function isTransient(error: unknown): boolean {
  return [WrongExpectedRevision, StreamClosed, OutcomeUnknown, EventStoreUnavailable].some((known) => error instanceof known);
}
