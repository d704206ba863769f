import { watch } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { ContainerGone, type LogCursor, type LogLine } from '../runtime.ts';
import { isMissing } from './atomic-file.ts';
import type { LocalContainer } from './local-container.ts';

/** The interval at which the output is read without file events, which network file systems lack, ms. */
const FALLBACK_MS = 5_000;
const CHUNK_BYTES = 64 * 1024;

/**
 * Yields the output of a container after the cursor, until it has ended or the signal aborts. Times are strictly increasing, so each names
 * one line.
 */
export async function* outputLines(
  container: LocalContainer,
  generation: number,
  after: LogCursor | null,
  signal: AbortSignal,
): AsyncIterable<LogLine> {
  // A cursor of a newer generation is after all output of this one.
  if (after !== null && after.generation > generation) return;
  const seen = after !== null && after.generation === generation ? after.time : '';
  const bell = new Bell(container.folder, signal);
  const reader = new SegmentReader(container);
  try {
    while (!signal.aborted) {
      bell.clear();
      const ended = await hasEnded(container);
      for (let lines = await reader.next(); lines !== null; lines = await reader.next()) {
        for (const raw of lines) {
          const line = parse(raw, generation);
          if (line !== null && line.cursor.time > seen) yield line;
          if (signal.aborted) return;
        }
      }
      if (ended) return;
      await bell.ring();
    }
  } finally {
    bell.close();
    await reader.close();
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
class Bell {
  private rung = false;
  private wake: () => void = () => undefined;
  private readonly watcher;
  private readonly onAbort = () => this.strike();

  constructor(
    folder: string,
    private readonly signal: AbortSignal,
  ) {
    try {
      this.watcher = watch(folder, () => this.strike());
      this.watcher.on('error', () => this.strike());
    } catch (error) {
      if (!isMissing(error)) throw error;
      this.strike();
    }
    signal.addEventListener('abort', this.onAbort);
  }

  clear(): void {
    this.rung = false;
  }

  ring(): Promise<void> {
    if (this.rung || this.signal.aborted) return Promise.resolve();
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

  private strike(): void {
    this.rung = true;
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
      // The next file is only created after the last line of this one was written, so its existence is checked before reading.
      const later = (await this.numbers()).some((number) => number > this.number);
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
    const number = (await this.numbers()).find((candidate) => candidate > this.number);
    if (number === undefined) return null;
    try {
      const file = await open(join(this.container.folder, `output-${String(number).padStart(8, '0')}.log`));
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

  private async numbers(): Promise<number[]> {
    try {
      const found = (await this.container.names()).map((name) => Number(/^output-(\d{8})\.log$/.exec(name)?.[1] ?? 0));
      return found.filter((number) => number > 0).sort((a, b) => a - b);
    } catch (error) {
      if (error instanceof ContainerGone) return [];
      throw error;
    }
  }
}
