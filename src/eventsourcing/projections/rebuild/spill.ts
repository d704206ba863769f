import { createReadStream } from 'node:fs';
import { mkdir, mkdtemp, open, rm, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';

import type { StoredEvent } from '../../event-store/event-store.ts';
import type { Row } from '../tables/fold.ts';

/** An entry of a part, in the order of arrival: a row as it is stored, or an event to fold. */
export type Spilled = { row: Row } | { event: StoredEvent };

export const PARTS = 64;
/** The characters of one part that are buffered before they are written. */
const BUFFER_MAX = 64 * 1024;

interface Part {
  file: FileHandle;
  waiting: string[];
  size: number;
}

/**
 * Stores on disk the rows and events that do not fit into a fold's memory, in parts by the hash of the partition, so that each part can be
 * folded by itself. The files are unlinked as soon as they are open, so a killed process leaves nothing behind.
 */
export class Spill {
  private constructor(private readonly parts: Part[]) {}

  static async open(directory: string): Promise<Spill> {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const folder = await mkdtemp(join(directory, 'rebuild-'));
    const parts: Part[] = [];
    try {
      for (let part = 0; part < PARTS; part += 1)
        parts.push({ file: await open(join(folder, String(part)), 'wx+', 0o600), waiting: [], size: 0 });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
    return new Spill(parts);
  }

  /** Returns the number of the partition's part. */
  static partOf(partition: string): number {
    // FNV-1a spreads names of any shape evenly.
    let hash = 0x811c9dc5;
    for (let index = 0; index < partition.length; index += 1) hash = Math.imul(hash ^ partition.charCodeAt(index), 0x01000193);
    return (hash >>> 0) % PARTS;
  }

  /** Buffers the item in memory. `flush` must follow soon. */
  add(part: number, item: Spilled): void {
    const to = this.parts[part] as Part;
    const line = JSON.stringify(item);
    to.waiting.push(line);
    to.size += line.length;
  }

  /** Writes the parts that have at least this many buffered characters. */
  async flush(least = BUFFER_MAX): Promise<void> {
    for (const part of this.parts) {
      if (part.size < least || part.size === 0) continue;
      const text = `${part.waiting.join('\n')}\n`;
      part.waiting = [];
      part.size = 0;
      await part.file.appendFile(text);
    }
  }

  /** Reads a part's items, in order. The last `flush(0)` must come before it. */
  async *read(part: number): AsyncGenerator<Spilled> {
    const { file } = this.parts[part] as Part;
    const input = createReadStream('', { fd: file, start: 0, autoClose: false, encoding: 'utf8' });
    let rest = '';
    for await (const text of input as AsyncIterable<string>) {
      const lines = (rest + text).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) yield JSON.parse(line) as Spilled;
    }
  }

  async close(): Promise<void> {
    for (const { file } of this.parts) await file.close();
  }
}
