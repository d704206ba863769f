import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { lstat, open, opendir, readdir, readlink, rename, rmdir, unlink, type FileHandle } from 'node:fs/promises';
import { PassThrough, Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { pack, type Pack } from 'tar-stream';
import { UNFINISHED_MS_MAX, UNFINISHED_PREFIX } from '../../file-paths.ts';
import { FILE_ENTRIES_MAX, FileRefused, type FileEntry, type FileKind } from '../../files.ts';
import { written } from '../archive.ts';
import { pathIn, pathOf, pin, unless } from './pinned.ts';

const TAR_ENTRIES_MAX = 100_000;
/** The depth of folders that are held open at once. */
const DEPTH_MAX = 64;
/** The rounds in which a folder is emptied, while the agent may go on filling it. */
const ROUNDS_MAX = 1_000;
const CHUNK_BYTES = 256 * 1024;

/** Returns the entries of the folder, sorted by name, at most `FILE_ENTRIES_MAX`. Removes unfinished files that a crash left in it. */
export async function entriesOf(folder: FileHandle, signal: AbortSignal): Promise<{ entries: FileEntry[]; truncated: boolean }> {
  const entries: FileEntry[] = [];
  let truncated = false;
  for await (const { name: given } of await opendir(pathOf(folder), { encoding: 'buffer' as BufferEncoding })) {
    signal.throwIfAborted();
    // The types don't know that names are buffers with this encoding.
    const bytes = given as unknown as Buffer;
    const name = bytes.toString();
    const path = pathIn(folder, bytes);
    const stats = await unless(['ENOENT'], lstat(path));
    if (stats === null) continue;
    if (name.startsWith(UNFINISHED_PREFIX)) {
      if (stats.isFile() && Date.now() - stats.mtimeMs > UNFINISHED_MS_MAX) await unless(['ENOENT', 'EPERM', 'EACCES'], unlink(path));
    } else if (entries.length === FILE_ENTRIES_MAX) truncated = true;
    else entries.push({ name, kind: kindOf(stats), size: stats.size, mtime: Math.floor(stats.mtimeMs / 1_000) });
    if (truncated) break;
  }
  return { entries: entries.toSorted((a, b) => (a.name < b.name ? -1 : Number(a.name > b.name))), truncated };
}

function kindOf(stats: { isFile(): boolean; isDirectory(): boolean; isSymbolicLink(): boolean }): FileKind {
  if (stats.isFile()) return 'file';
  if (stats.isDirectory()) return 'directory';
  return stats.isSymbolicLink() ? 'link' : 'other';
}

/**
 * Removes what the name in the folder stands for. Every folder is held before it is emptied, so that nothing outside is removed through a
 * link that the agent puts in its place. Folders that are nested too deep to be held are moved up first.
 */
export async function removeTree(folder: FileHandle, name: string, signal: AbortSignal): Promise<void> {
  await remove({ folder, top: null, depth: 0, signal }, Buffer.from(name));
}

interface Removal {
  folder: FileHandle;
  /** The outermost folder that is being removed; null for what holds it. */
  top: FileHandle | null;
  depth: number;
  signal: AbortSignal;
}

async function remove({ folder, top, depth, signal }: Removal, name: Buffer): Promise<void> {
  signal.throwIfAborted();
  const path = pathIn(folder, name);
  try {
    return await unlink(path);
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (depth > 0 && code === 'ENOENT') return;
    if (!['EISDIR', 'EPERM'].includes(code)) throw error;
  }
  const isGone = await unless(
    ['ENOTEMPTY', 'EEXIST'],
    rmdir(path).then(() => true),
  );
  if (isGone !== null) return;
  if (top !== null && depth > DEPTH_MAX) return rename(path, pathIn(top, UNFINISHED_PREFIX + randomUUID()));
  const inner = await open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    for (let round = 0; round < ROUNDS_MAX; round++) {
      const names = (await readdir(pathOf(inner), { encoding: 'buffer' })) as Buffer[];
      for (const each of names) await remove({ folder: inner, top: top ?? inner, depth: depth + 1, signal }, each);
      if (
        (await unless(
          ['ENOTEMPTY', 'EEXIST'],
          rmdir(path).then(() => true),
        )) !== null
      )
        return;
    }
    throw new FileRefused('not_permitted');
  } finally {
    await inner.close();
  }
}

/** Returns the folder as a plain tar whose entries begin with `name`. It closes the handle. */
export function packedFolder(folder: FileHandle, name: string): Readable {
  const tar = pack();
  const content = new PassThrough();
  content.once('close', () => tar.destroy());
  tar.once('error', (error) => content.destroy(error));
  tar.pipe(content);
  new TreePack(tar)
    .add(folder, name)
    .then(
      () => tar.finalize(),
      (error: unknown) => content.destroy(error as Error),
    )
    .finally(() => void folder.close());
  return content;
}

class TreePack {
  private entries = 0;

  constructor(private readonly tar: Pack) {}

  /** Adds what the handle holds, and if it is a folder, all of it. */
  async add(handle: FileHandle, name: string, depth = 0): Promise<void> {
    if (++this.entries > TAR_ENTRIES_MAX || depth > DEPTH_MAX) throw new FileRefused('too_large');
    if (this.tar.destroyed) throw new Error('nobody reads the tar any more');
    const stats = await handle.stat();
    const header = { name, mode: stats.mode & 0o777, mtime: stats.mtime };
    if (stats.isDirectory()) {
      await written(this.tar, { ...header, type: 'directory' });
      for (const child of (await readdir(pathOf(handle), { encoding: 'buffer' })) as Buffer[])
        await this.addChild(handle, child, `${name}/${child.toString()}`, depth + 1);
    } else if (stats.isFile()) await this.addFile(handle, { ...header, size: stats.size });
  }

  private async addChild(folder: FileHandle, child: Buffer, name: string, depth: number): Promise<void> {
    const path = pathIn(folder, child);
    const handle = await unless(['ENOENT'], pin(path));
    if (handle === null) return;
    try {
      const stats = await handle.stat();
      if (!stats.isSymbolicLink()) return await this.add(handle, name, depth);
      const linkname = await unless(['EINVAL', 'ENOENT'], readlink(path));
      if (linkname !== null) await written(this.tar, { name, mtime: stats.mtime, type: 'symlink', linkname });
    } finally {
      await handle.close();
    }
  }

  private async addFile(handle: FileHandle, header: Parameters<Pack['entry']>[0] & { size: number }): Promise<void> {
    if (header.size === 0) return written(this.tar, header, '');
    await pipeline(await contentOf(handle, 0, header.size), this.tar.entry(header));
  }
}

/**
 * Returns `length` bytes of the regular file that the handle holds. If the file grows meanwhile, no more are read; if it shrinks, the stream
 * ends with an error.
 */
export async function contentOf(handle: FileHandle, start: number, length: number): Promise<Readable> {
  // The path leads to the file that is held, which is known to be regular.
  const file = await open(pathOf(handle), constants.O_RDONLY | constants.O_NONBLOCK);
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
