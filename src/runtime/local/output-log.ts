/**
 * Reads the output of a container of the local runtime from its numbered files.
 *
 * Owns: the reading position of one reader. Does not own the files, which the supervisor writes and rotates.
 *
 * O1  Times increase strictly from line to line, over files and runs, so a time names one line.
 * O2  A reader whose cursor lies before the oldest line that is left gets a marker of lost output first.
 * O3  A file that is deleted while it is read is read to its end. The next one is looked up before, so no line between them is missed.
 */
import { watch } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import type { LogCursor, LogLine } from '../runtime.ts';
import { ContainerGone } from '../runtime.errors.ts';
import { isMissing } from './atomic-file.ts';
import { LINE_BYTES_MAX } from '../long-line.mjs';
import { lostOutput } from '../lost-output.ts';
import type { LocalContainer } from './local-container.ts';

/** The interval at which the output is read without file events, which network file systems lack, in ms. */
const FALLBACK_MS = 5_000;
const CHUNK_BYTES = 64 * 1024;
/** The size of a stored line, with its time, that is read at once where the last lines are asked for. Of longer ones fewer are found. */
const STORED_LINE_BYTES = 17 * 1024;

/** Yields the output of a container after the cursor, until the container has ended or the signal aborts. */
export async function* outputLines(
  container: LocalContainer,
  generation: number,
  after: LogCursor | null,
  signal: AbortSignal,
): AsyncIterable<LogLine> {
  // A cursor of a newer generation is after all output of this one.
  if (after !== null && after.generation > generation) return;
  const from = after !== null && after.generation === generation ? after : null;
  const bell = new ChangeSignal(container.folder, signal);
  const reader = new SegmentReader(container);
  const place = new ReadPosition(from);
  try {
    while (!signal.aborted) {
      bell.clear();
      const ended = await hasEnded(container);
      for (let lines = await reader.next(); lines !== null; lines = await reader.next()) {
        for (const raw of lines) {
          const line = parse(raw, generation);
          if (line !== null) yield* place.newLines(line);
          if (signal.aborted) return;
        }
      }
      if (ended) return;
      await bell.wait();
    }
  } finally {
    bell.close();
    await reader.close();
  }
}

/** O2: The position in the output up to which lines have been yielded. */
class ReadPosition {
  /** The value is true once the line of the cursor was met, so that nothing can be missing between it and the next line. */
  private isMet: boolean;

  constructor(private readonly from: LogCursor | null) {
    this.isMet = from === null;
  }

  *newLines(line: LogLine): Generator<LogLine> {
    const { from } = this;
    if (from !== null && line.cursor.time <= from.time) {
      this.isMet ||= line.cursor.time === from.time;
      return;
    }
    if (from !== null && !this.isMet) yield lostOutput(from);
    this.isMet = true;
    yield line;
  }
}

/** Returns the texts of the last lines of a container's output so far, at most `count`. */
export async function lastOutputLines(container: LocalContainer, count: number): Promise<string[]> {
  await container.names();
  const texts: string[] = [];
  for (const number of (await segmentNumbers(container)).toReversed()) {
    if (texts.length >= count) break;
    texts.unshift(...(await lastTextsOf(segmentFile(container, number), count - texts.length)));
  }
  return texts;
}

async function lastTextsOf(path: string, count: number): Promise<string[]> {
  const file = await open(path).catch(onlyMissing);
  if (file === null) return [];
  try {
    const { size } = await file.stat();
    const bytes = Buffer.alloc(Math.min(size, Math.max(count * STORED_LINE_BYTES, 2 * LINE_BYTES_MAX)));
    await file.read(bytes, 0, bytes.length, size - bytes.length);
    // A line that begins before the bytes does not match the form of a line, and the last one may not be complete yet.
    const lines = bytes.toString('utf8', 0, bytes.lastIndexOf(10)).split('\n');
    return lines
      .map((line) => parse(line, 0)?.text)
      .filter((text) => text !== undefined)
      .slice(-count);
  } finally {
    await file.close();
  }
}

function onlyMissing(error: unknown): null {
  if (isMissing(error)) return null;
  throw error;
}

function segmentFile({ folder }: LocalContainer, number: number): string {
  return join(folder, `output-${String(number).padStart(8, '0')}.log`);
}

/** Returns the numbers of the output files, in order. */
async function segmentNumbers(container: LocalContainer): Promise<number[]> {
  try {
    const found = (await container.names()).map((name) => Number(/^output-(\d{8})\.log$/.exec(name)?.[1] ?? 0));
    return found.filter((number) => number > 0).sort((a, b) => a - b);
  } catch (error) {
    if (error instanceof ContainerGone) return [];
    throw error;
  }
}

async function hasEnded(container: LocalContainer): Promise<boolean> {
  try {
    return (await container.view()).state === 'exited';
  } catch (error) {
    if (error instanceof ContainerGone) return true;
    throw error;
  }
}

function parse(raw: string, generation: number): LogLine | null {
  const match = /^(\S{30}) ([oe]) (.*)$/s.exec(raw);
  if (match === null) return null;
  return {
    stream: match[2] === 'e' ? 'stderr' : 'stdout',
    text: match[3] as string,
    cursor: { generation, time: match[1] as string, count: 1 },
  };
}

/** Wakes its waiter when something in the folder changed, or the signal aborts. */
class ChangeSignal {
  private isNotified = false;
  private wake: () => void = () => undefined;
  private readonly watcher;
  private readonly onAbort = () => this.notify();

  constructor(
    folder: string,
    private readonly signal: AbortSignal,
  ) {
    try {
      this.watcher = watch(folder, () => this.notify());
      this.watcher.on('error', () => this.notify());
    } catch (error) {
      if (!isMissing(error)) throw error;
      this.notify();
    }
    signal.addEventListener('abort', this.onAbort);
  }

  clear(): void {
    this.isNotified = false;
  }

  wait(): Promise<void> {
    if (this.isNotified || this.signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, FALLBACK_MS);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  close(): void {
    this.watcher?.close();
    this.signal.removeEventListener('abort', this.onAbort);
    this.wake();
  }

  private notify(): void {
    this.isNotified = true;
    this.wake();
  }
}

/** Reads the numbered output files one after the other. A file that is deleted while it is open is still read to its end. */
class SegmentReader {
  private file: FileHandle | null = null;
  private number = 0;
  private offset = 0;
  private rest = Buffer.alloc(0);

  constructor(private readonly container: LocalContainer) {}

  /** Returns the next lines, or null if there are none now. */
  async next(): Promise<string[] | null> {
    for (;;) {
      this.file ??= await this.openNext();
      if (this.file === null) return null;
      // O3: The next file is created only after the last line of this one was written, so its existence is checked before reading.
      const later = (await segmentNumbers(this.container)).some((number) => number > this.number);
      const lines = await this.readLines(this.file);
      if (lines !== null) return lines;
      if (!later) return null;
      await this.close();
    }
  }

  async close(): Promise<void> {
    await this.file?.close();
    this.file = null;
  }

  private async readLines(file: FileHandle): Promise<string[] | null> {
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    const { bytesRead } = await file.read(chunk, 0, CHUNK_BYTES, this.offset);
    if (bytesRead === 0) return null;
    this.offset += bytesRead;
    const all = Buffer.concat([this.rest, chunk.subarray(0, bytesRead)]);
    const end = all.lastIndexOf(10);
    this.rest = Buffer.from(all.subarray(end + 1));
    return end === -1 ? [] : all.toString('utf8', 0, end).split('\n');
  }

  private async openNext(): Promise<FileHandle | null> {
    const number = (await segmentNumbers(this.container)).find((candidate) => candidate > this.number);
    if (number === undefined) return null;
    try {
      const file = await open(segmentFile(this.container, number));
      this.number = number;
      this.offset = 0;
      this.rest = Buffer.alloc(0);
      return file;
    } catch (error) {
      // The file was deleted since it was listed; the files after it are still there.
      if (!isMissing(error)) throw error;
      this.number = number;
      return this.openNext();
    }
  }
}
