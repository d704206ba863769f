import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import type { Stats } from 'node:fs';
import { lstat, readdir, readlink, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { pack } from 'tar-stream';
import type { Pack } from 'tar-stream';
import { RuntimeRefused } from '../../runtime.errors.ts';

const ENTRIES_MAX = 100_000;
const CONTEXT_BYTES_MAX = 4 * 1024 ** 3;

/** An entry of a tar. The content of a file is read from `source`, or is given as `content`. */
export interface TarEntry {
  /** The path in the tar, without a leading slash. */
  name: string;
  type: 'file' | 'directory' | 'symlink';
  mode: number;
  source?: string;
  content?: string | Buffer;
  linkname?: string;
  /** The time of the last change. */
  mtime?: Date;
}

/** The times that every archive can hold, from what is older than a ZIP to what is later than one. */
const TIMES = { first: Date.UTC(1980, 0, 2), last: Date.UTC(2107, 11, 30) };

/**
 * Returns the folder's files, directories and symbolic links in a stable order, with paths under `prefix`; anything else is left out. Modes
 * become readable for all, and executable for all if the owner may execute, so that an agent's user can read files that were written with a
 * strict umask. Each keeps its time, in whole seconds, so that what a program says of a file's age is true. Throws `RuntimeRefused` above 100,000 entries or 4 GiB.
 */
export async function folderEntries(directory: string, prefix: string): Promise<TarEntry[]> {
  const entries: TarEntry[] = [];
  const waiting = [''];
  let bytes = 0;
  for (let folder = waiting.pop(); folder !== undefined; folder = waiting.pop()) {
    const names = (await readdir(join(directory, folder))).toSorted();
    for (const name of names) {
      const path = folder === '' ? name : `${folder}/${name}`;
      const stats = await lstat(join(directory, path));
      const entry = await entryOf(join(directory, path), prefix + path, stats);
      if (entry === null) continue;
      entries.push(entry);
      bytes += entry.type === 'file' ? stats.size : 0;
      if (entry.type === 'directory') waiting.push(path);
      if (entries.length > ENTRIES_MAX || bytes > CONTEXT_BYTES_MAX)
        throw new RuntimeRefused(`The folder to build from has more than ${ENTRIES_MAX} files or 4 GiB.`);
    }
  }
  return entries.toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

async function entryOf(source: string, name: string, stats: Stats): Promise<TarEntry | null> {
  const mtime = timeOf(stats);
  if (stats.isDirectory()) return { name, type: 'directory', mode: 0o755, mtime };
  if (stats.isSymbolicLink()) return { name, type: 'symlink', mode: 0o777, linkname: await readlink(source), mtime };
  return stats.isFile() ? { name, type: 'file', mode: stats.mode & 0o100 ? 0o755 : 0o644, source, mtime } : null;
}

function timeOf({ mtimeMs }: Stats): Date {
  return new Date(Math.min(TIMES.last, Math.max(TIMES.first, Math.floor(mtimeMs / 1_000) * 1_000)));
}

/**
 * Returns a plain tar of the entries, which is written as it is read. Those without a time of their own get the same. The stream breaks if a source can't be read or
 * changes its size.
 */
export function tarOf(entries: TarEntry[]): Readable {
  const tar = pack();
  void write(tar, entries).then(
    () => tar.finalize(),
    (error: Error) => tar.destroy(error),
  );
  return Readable.from(tar, { objectMode: false });
}

async function write(tar: Pack, entries: TarEntry[]): Promise<void> {
  for (const { name, type, mode, source, content, linkname, mtime = new Date(0) } of entries) {
    const header = { name, type, mode, mtime };
    if (source === undefined) {
      tar.entry(linkname === undefined ? header : { ...header, linkname }, content ?? '');
      continue;
    }
    const { size } = await stat(source);
    await pipeline(createReadStream(source), tar.entry({ ...header, size }));
  }
}

/** Returns one hash of the names, modes and contents, in hexadecimal. */
export async function hashOf(entries: TarEntry[]): Promise<string> {
  const hash = createHash('sha256');
  for (const { name, type, mode, source, content, linkname } of entries) {
    hash.update(JSON.stringify([name, type, mode, linkname ?? '']));
    if (content !== undefined) hash.update(content);
    if (source === undefined) continue;
    const file = createHash('sha256');
    for await (const chunk of createReadStream(source)) file.update(chunk as Buffer);
    hash.update(file.digest());
  }
  return hash.digest('hex');
}
