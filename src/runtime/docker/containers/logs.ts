import type Dockerode from 'dockerode';
import { LINE_BYTES_MAX, LongLine } from '../../long-line.mjs';
import { lostOutput } from '../../lost-output.ts';
import type { OutputBounds } from '../../output-bounds.ts';
import type { LogCursor, LogLine, OutputStream } from '../../runtime.ts';
import { call, portError } from '../engine/engine.ts';
import { frames, type Frame } from '../engine/frames.ts';
import { identityOf } from '../engine/names.ts';
import { WatchedStream } from './watched-stream.ts';

/** The size of the pieces into which the engine splits a long line; only the last one is shorter, or ends in a line feed. */
const PIECE_BYTES = 16 * 1024;
/**
 * After much output, the silence after which the output is followed anew, in ms. It doubles, up to an hour, each time that this found nothing:
 * to follow anew costs the engine a read of all log files, and it sends the last second again.
 */
const SILENT_MS = 10_000;
const SILENT_MS_MAX = 3_600_000;

const LINE_FEED = 0x0a;
const NOTHING = Buffer.alloc(0);

interface Stamped {
  /** The time as RFC 3339 in UTC, always with nine digits of a second, so that text order is time order. */
  time: string;
  text: string;
  stream: OutputStream;
  /** When the line of the other output began that had not ended here. */
  open?: string;
}

/**
 * Yields a container's output after the cursor, and new output. Ends with the container or the signal, and when the engine ends the
 * response, as it may when it stops or has rotated a log file. Throws `ContainerGone`, `RuntimeUnavailable`.
 */
export async function* containerLog(
  container: Dockerode.Container,
  after: LogCursor | null,
  signal: AbortSignal,
  bounds?: OutputBounds,
): AsyncGenerator<LogLine> {
  const handle = container.id;
  try {
    const { Config, Created } = await call(handle, (abortSignal) => container.inspect({ abortSignal }));
    const { generation } = identityOf(Config.Labels);
    let from = after?.generation === generation ? after : null;
    // The line of an older cursor was printed by a removed container of the same generation, so it is missing without being lost.
    const isPrintedHere = (cursor: LogCursor | null) => cursor !== null && cursor.time >= nineDigits(Created);
    for (let isStalled = true, silentMs = SILENT_MS; isStalled;) {
      const closing = new AbortController();
      const output = await call(handle, () => openLog(container, from, AbortSignal.any([signal, closing.signal])));
      const stream = new WatchedStream(output, silentMs);
      silentMs = Math.min(silentMs * 2, SILENT_MS_MAX);
      // A line without an end is whole only if nothing more can be printed.
      const isOver = async () => !signal.aborted && !stream.isStalled && !(await isRunning(container));
      try {
        for await (const line of linesAfter(frames(stream), generation, from, { isPrintedHere: isPrintedHere(from), bounds, isOver })) {
          yield line;
          from = line.cursor;
          silentMs = SILENT_MS;
        }
      } finally {
        // The connection is closed after a stall, and when the reader stops.
        closing.abort();
      }
      ({ isStalled } = stream);
    }
  } catch (error) {
    if (!signal.aborted) throw portError(error, handle);
  }
}

/** Returns the texts of a container's last lines so far, at most `count`. Throws `ContainerGone`, `RuntimeUnavailable`. */
export async function lastLinesOf(container: Dockerode.Container, count: number): Promise<string[]> {
  const options = { follow: false as const, stdout: true, stderr: true, timestamps: true, tail: count };
  const bytes = await call(container.id, (abortSignal) => container.logs({ ...options, abortSignal }));
  const texts: string[] = [];
  for await (const { text } of stampedLines(frames(once(bytes)), { isOver: () => Promise.resolve(true) })) texts.push(text);
  return texts;
}

async function isRunning(container: Dockerode.Container): Promise<boolean> {
  const { State } = await call(container.id, (abortSignal) => container.inspect({ abortSignal }));
  return State.Running;
}

async function* once(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes;
}

interface Reading {
  bounds?: OutputBounds | undefined;
  /** Returns whether the output has ended, so that a last line without an end is whole. By default it has not. */
  isOver?: () => Promise<boolean>;
}

/**
 * Yields the lines after the cursor, each once it has ended, and under the time of its last piece. The two streams get their time stamps
 * independently, so a line can come after one with a later time. Each line therefore counts under the latest time seen so far. A resumed
 * reading starts a second earlier, or where the line began that was open then, and computes the same times and counts, so that no line is lost
 * or repeated. The engine removes whole files, the oldest first: if the cursor's line is gone, lines after it may be gone, too, unless another
 * container printed it.
 */
export async function* linesAfter(
  source: AsyncIterable<Frame>,
  generation: number,
  from: LogCursor | null,
  { isPrintedHere = from !== null, ...reading }: Reading & { isPrintedHere?: boolean } = {},
): AsyncGenerator<LogLine> {
  let time = '';
  let count = 0;
  let isMet = !isPrintedHere;
  for await (const { stream, text, open, ...line } of stampedLines(source, reading)) {
    count = line.time > time ? 1 : count + 1;
    time = line.time > time ? line.time : time;
    if (from !== null && (time < from.time || (time === from.time && count <= from.count))) {
      isMet ||= time === from.time && count === from.count;
      await reading.bounds?.pace(text.length);
      continue;
    }
    if (from !== null && !isMet) yield lostOutput(from);
    isMet = true;
    yield { stream, text, cursor: { generation, time, count, ...(open !== undefined && { open }) } };
  }
}

async function openLog(container: Dockerode.Container, from: LogCursor | null, abortSignal: AbortSignal): Promise<AsyncIterable<Buffer>> {
  const options = { follow: true as const, stdout: true, stderr: true, timestamps: true, abortSignal };
  const stream = await container.logs(
    from === null ? options : { ...options, since: secondBefore(beginningOf(from)) as unknown as number },
  );
  return stream as unknown as AsyncIterable<Buffer>;
}

/** Returns the time of the earliest output that a resumed reading needs. */
function beginningOf({ time, open = time }: LogCursor): string {
  return open < time ? open : time;
}

/** Returns a second before the time in the format of the engine's API: seconds and nanoseconds since 1970. */
function secondBefore(time: string): string {
  const seconds = Math.floor(Date.parse(`${time.slice(0, 19)}Z`) / 1_000);
  return `${Math.max(seconds - 1, 0)}.${time.slice(20, 29)}`;
}

/** A line that has not ended. */
class OpenLine {
  private readonly line = new LongLine();
  private free: (() => void) | null = null;

  constructor(
    readonly stream: OutputStream,
    readonly began: string,
  ) {}

  /** Adds a piece. For more than one piece, memory is reserved in which the line waits for its end; where there is none, the line is cut. */
  hold(bytes: Buffer, bounds: OutputBounds | undefined): void {
    this.line.add(bytes, (size) => size <= PIECE_BYTES || bounds === undefined || (this.free ??= bounds.reserve(LINE_BYTES_MAX)) !== null);
  }

  /** Ends the line with a last piece, and returns its text. */
  end(bytes: Buffer): string {
    this.line.add(bytes);
    this.release();
    return this.line.text();
  }

  release(): void {
    this.free?.();
    this.free = null;
  }
}

/** Yields the lines. What waits for the end of a line is counted by `pace` as it is read; what is yielded is counted by the reader. */
async function* stampedLines(source: AsyncIterable<Frame>, { bounds, isOver }: Reading = {}): AsyncGenerator<Stamped> {
  const open = new Map<OutputStream, OpenLine>();
  const began = () => [...open.values()].map((line) => line.began).toSorted()[0];
  let last = '';
  try {
    for await (const { stream, payload } of source) {
      const space = payload.indexOf(0x20);
      if (space <= 0) {
        await bounds?.pace(payload.length);
        continue;
      }
      const bytes = payload.subarray(space + 1);
      last = nineDigits(payload.toString('latin1', 0, space));
      const line = open.get(stream) ?? new OpenLine(stream, last);
      if (bytes.at(-1) !== LINE_FEED && bytes.length >= PIECE_BYTES) {
        open.set(stream, line);
        line.hold(bytes, bounds);
        await bounds?.pace(bytes.length);
        continue;
      }
      open.delete(stream);
      const text = line.end(bytes.at(-1) === LINE_FEED ? bytes.subarray(0, -1) : bytes);
      yield stamped(stream, last, text, began());
    }
    if (open.size > 0 && (await isOver?.()) === true)
      for (const line of open.values()) {
        open.delete(line.stream);
        yield stamped(line.stream, last, line.end(NOTHING), began());
      }
  } finally {
    for (const line of open.values()) line.release();
  }
}

function stamped(stream: OutputStream, time: string, text: string, open: string | undefined): Stamped {
  return { stream, time, text, ...(open !== undefined && { open }) };
}

function nineDigits(time: string): string {
  const [, seconds = time, digits = ''] = /^([^.Z]*)(?:\.(\d*))?Z$/.exec(time) ?? [];
  return `${seconds}.${digits.padEnd(9, '0')}Z`;
}
