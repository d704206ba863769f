import type Dockerode from 'dockerode';
import { lostOutput } from '../../lost-output.ts';
import type { LogCursor, LogLine, ReadPace } from '../../runtime.ts';
import { call, portError } from '../engine/engine.ts';
import { frames, type Frame } from '../engine/frames.ts';
import { identityOf } from '../engine/names.ts';
import { WatchedStream } from './watched-stream.ts';

const LINE_BYTES_MAX = 16 * 1024;
/**
 * The silence after much output, in ms, after which the output is followed anew. It doubles each time that nothing new was found, up to an
 * hour: the engine reads all files to find the place, and of an agent that went silent after a flood it hands on the last second again.
 */
const SILENT_MS = 10_000;
const SILENT_MS_MAX = 3_600_000;

interface Stamped {
  /** The time as RFC 3339 in UTC, always with nine digits of a second, so that text order is time order. */
  time: string;
  text: string;
  stream: LogLine['stream'];
}

/**
 * Yields a container's output after the cursor, and new output. Ends with the container or the signal, and when the engine ends the
 * response, as it may when it stops or has rotated a log file. Throws `ContainerGone`, `RuntimeUnavailable`.
 */
export async function* containerLog(
  container: Dockerode.Container,
  after: LogCursor | null,
  signal: AbortSignal,
  pace?: ReadPace,
): AsyncGenerator<LogLine> {
  const handle = container.id;
  try {
    const { Config, Created } = await call(handle, (abortSignal) => container.inspect({ abortSignal }));
    const { generation } = identityOf(Config.Labels);
    let from = after?.generation === generation ? after : null;
    // The line of an older cursor was printed by a removed container of the same generation, so that it is missing without being lost.
    const isPrintedHere = (cursor: LogCursor | null) => cursor !== null && cursor.time >= nineDigits(Created);
    for (let isStalled = true, silentMs = SILENT_MS; isStalled;) {
      const closing = new AbortController();
      const output = await call(handle, () => openLog(container, from, AbortSignal.any([signal, closing.signal])));
      const stream = new WatchedStream(output, silentMs);
      silentMs = Math.min(silentMs * 2, SILENT_MS_MAX);
      try {
        for await (const line of linesAfter(frames(stream), generation, from, { isPrintedHere: isPrintedHere(from), pace })) {
          yield line;
          from = line.cursor;
          silentMs = SILENT_MS;
        }
      } finally {
        // The connection is closed after a stall, and when the reader leaves.
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
  for await (const { text } of stampedLines(frames(once(bytes)))) texts.push(text);
  return texts;
}

async function* once(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes;
}

/**
 * Yields the lines after the cursor, each cut at 16 KiB. The two streams get their time stamps independently, so a line can come after one
 * with a later time. Each line therefore counts under the latest time seen so far. A resumed reading starts a second earlier and computes
 * the same times and counts, so that no line is lost or repeated. The engine removes whole files, the oldest first: if the cursor's line is
 * gone, lines after it may be gone, too, unless another container printed it.
 */
export async function* linesAfter(
  source: AsyncIterable<Frame>,
  generation: number,
  from: LogCursor | null,
  { isPrintedHere = from !== null, pace }: { isPrintedHere?: boolean; pace?: ReadPace | undefined } = {},
): AsyncGenerator<LogLine> {
  let time = '';
  let count = 0;
  let isMet = !isPrintedHere;
  for await (const line of stampedLines(source, pace)) {
    count = line.time > time ? 1 : count + 1;
    time = line.time > time ? line.time : time;
    if (from !== null && (time < from.time || (time === from.time && count <= from.count))) {
      isMet ||= time === from.time && count === from.count;
      await pace?.(line.text.length);
      continue;
    }
    if (from !== null && !isMet) yield lostOutput(from);
    isMet = true;
    yield { stream: line.stream, text: line.text, cursor: { generation, time, count } };
  }
}

async function openLog(container: Dockerode.Container, from: LogCursor | null, abortSignal: AbortSignal): Promise<AsyncIterable<Buffer>> {
  const options = { follow: true as const, stdout: true, stderr: true, timestamps: true, abortSignal };
  const stream = await container.logs(from === null ? options : { ...options, since: secondBefore(from.time) as unknown as number });
  return stream as unknown as AsyncIterable<Buffer>;
}

/** Returns a second before the time in the format of the engine's API: seconds and nanoseconds since 1970. */
function secondBefore(time: string): string {
  const seconds = Math.floor(Date.parse(`${time.slice(0, 19)}Z`) / 1_000);
  return `${Math.max(seconds - 1, 0)}.${time.slice(20, 29)}`;
}

/** Yields the lines. What is read and dropped is counted by `pace`; what is yielded is counted by the reader. */
async function* stampedLines(source: AsyncIterable<Frame>, pace?: ReadPace): AsyncGenerator<Stamped> {
  // The engine splits a long line into pieces of 16 KiB; all but the first piece are dropped.
  const within = { stdout: false, stderr: false };
  for await (const { stream, payload } of source) {
    const space = payload.indexOf(0x20);
    const bytes = payload.subarray(space + 1);
    const first = !within[stream];
    within[stream] = bytes.at(-1) !== 0x0a && bytes.length >= LINE_BYTES_MAX;
    if (first && space > 0) yield { stream, time: nineDigits(payload.toString('latin1', 0, space)), text: textOf(bytes) };
    else await pace?.(payload.length);
  }
}

function nineDigits(time: string): string {
  const [, seconds = time, digits = ''] = /^([^.Z]*)(?:\.(\d*))?Z$/.exec(time) ?? [];
  return `${seconds}.${digits.padEnd(9, '0')}Z`;
}

/** Returns the number of bytes at the end that begin an incomplete character. */
function cutCharacter(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes.at(-back) ?? 0;
    if (byte < 0x80) return 0;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 0;
    if (length > 0) return length > back ? back : 0;
  }
  return 0;
}

/** Returns the line as valid UTF-8 without NUL or line end, at most 16 KiB. */
function textOf(line: Buffer): string {
  const end = line.at(-1) === 0x0a ? (line.at(-2) === 0x0d ? -2 : -1) : line.length;
  const bytes = line.subarray(0, end);
  const text = (bytes.length < LINE_BYTES_MAX ? bytes : whole(bytes)).toString('utf8').replaceAll('\0', '\uFFFD');
  // U+FFFD is longer than the byte that it replaces, so the limit is applied again.
  const encoded = Buffer.from(text);
  return encoded.length <= LINE_BYTES_MAX ? text : whole(encoded).toString('utf8');
}

/** Returns the first 16 KiB, without a character that the cut went through. */
function whole(bytes: Buffer): Buffer {
  const cut = bytes.subarray(0, LINE_BYTES_MAX);
  return cut.subarray(0, cut.length - cutCharacter(cut));
}
