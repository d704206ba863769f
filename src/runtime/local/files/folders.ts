import { constants, type Stats } from 'node:fs';
import { lstat, open, opendir, readdir, readlink, unlink, type FileHandle } from 'node:fs/promises';
import { PassThrough, Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { pack, type Pack } from 'tar-stream';
import { UNFINISHED_MS_MAX, UNFINISHED_PREFIX } from '../../file-paths.ts';
import { FILE_ENTRIES_MAX, FileRefused, type FileEntry, type FileKind } from '../../files.ts';
import { written } from '../archive.ts';
import { unless } from './file-errors.ts';

const TAR_ENTRIES_MAX = 100_000;
const TAR_DEPTH_MAX = 64;
const CHUNK_BYTES = 256 * 1024;

/** Returns the entries of the folder, sorted by name, at most `FILE_ENTRIES_MAX`. Removes unfinished files that a crash left there. */
export async function entriesOf(folder: string, signal: AbortSignal): Promise<{ entries: FileEntry[]; truncated: boolean }> {
  const entries: FileEntry[] = [];
  for await (const { name: given } of await opendir(folder, { encoding: 'buffer' as BufferEncoding })) {
    signal.throwIfAborted();
    // The type definitions lack that names are buffers with this encoding.
    const bytes = given as unknown as Buffer;
    const name = bytes.toString();
    const path = pathIn(folder, bytes);
    const stats = await unless(['ENOENT'], lstat(path));
    if (stats === null) continue;
    if (name.startsWith(UNFINISHED_PREFIX)) {
      if (stats.isFile() && Date.now() - stats.mtimeMs > UNFINISHED_MS_MAX) await unless(['ENOENT', 'EPERM', 'EACCES'], unlink(path));
    } else if (entries.length === FILE_ENTRIES_MAX) return { entries: sorted(entries), truncated: true };
    else entries.push({ name, kind: kindOf(stats), size: stats.size, mtime: Math.floor(stats.mtimeMs / 1_000) });
  }
  return { entries: sorted(entries), truncated: false };
}

function sorted(entries: FileEntry[]): FileEntry[] {
  return entries.toSorted((a, b) => (a.name < b.name ? -1 : Number(a.name > b.name)));
}

function kindOf(stats: Stats): FileKind {
  if (stats.isFile()) return 'file';
  if (stats.isDirectory()) return 'directory';
  return stats.isSymbolicLink() ? 'link' : 'other';
}

/** Names that are not UTF-8 have no path as text. */
function pathIn(folder: string | Buffer, name: Buffer): Buffer {
  return Buffer.concat([Buffer.from(folder as string), Buffer.from('/'), name]);
}

/** Returns the folder as a plain tar whose entries begin with `name`. */
export function packedFolder(folder: string, name: string): Readable {
  const tar = pack();
  const content = new PassThrough();
  // The reader gets the error, and the reader's end stops the packing.
  pipeline(tar, content).catch(() => undefined);
  new FolderPack(tar).add(Buffer.from(folder), name).then(
    () => tar.finalize(),
    (error: unknown) => content.destroy(error as Error),
  );
  return content;
}

class FolderPack {
  private entries = 0;

  constructor(private readonly tar: Pack) {}

  /** Adds the file, folder or link, and the content of a folder. */
  async add(path: Buffer, name: string, depth = 0): Promise<void> {
    if (++this.entries > TAR_ENTRIES_MAX || depth > TAR_DEPTH_MAX) throw new FileRefused('too_large');
    if (this.tar.destroyed) throw new Error('nobody reads the tar any more');
    const stats = await unless(['ENOENT'], lstat(path));
    const header = { name, mode: (stats?.mode ?? 0) & 0o777, mtime: stats?.mtime };
    if (stats?.isDirectory() === true) {
      await written(this.tar, { ...header, type: 'directory' });
      for (const child of await readdir(path, { encoding: 'buffer' }))
        await this.add(pathIn(path, child), `${name}/${child.toString()}`, depth + 1);
    } else if (stats?.isSymbolicLink() === true) {
      const linkname = await unless(['EINVAL', 'ENOENT'], readlink(path));
      if (linkname !== null) await written(this.tar, { name, mtime: stats.mtime, type: 'symlink', linkname });
    } else if (stats?.isFile() === true) await this.addFile(path, header);
  }

  private async addFile(path: Buffer, header: Parameters<Pack['entry']>[0]): Promise<void> {
    const file = await openFile(path);
    const { size } = await file.stat();
    await pipeline(contentOf(file, 0, size), this.tar.entry({ ...header, size }));
  }
}

/** Opens a regular file for reading. If the path is a FIFO instead, the call does not wait for its other end. */
export async function openFile(path: string | Buffer): Promise<FileHandle> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
  if ((await file.stat()).isFile()) return file;
  await file.close();
  throw new FileRefused('not_a_file');
}

/**
 * Returns `length` bytes of the file, and closes the file. If it grows meanwhile, the new bytes are not read; if it shrinks, the stream
 * fails.
 */
export function contentOf(file: FileHandle, start: number, length: number): Readable {
  let left = length;
  return new Readable({
    highWaterMark: CHUNK_BYTES,
    read() {
      if (left === 0) return void this.push(null);
      file.read(Buffer.allocUnsafe(Math.min(left, CHUNK_BYTES)), 0, null, start + length - left).then(
        ({ bytesRead, buffer }) => {
          left -= bytesRead;
          if (bytesRead === 0) this.destroy(new Error('the file has shrunk while it was read'));
          else this.push(buffer.subarray(0, bytesRead));
        },
        (error: unknown) => this.destroy(error as Error),
      );
    },
    destroy(error, done) {
      file.close().then(() => done(error), done);
    },
  });
}
