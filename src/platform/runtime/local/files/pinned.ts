import { constants } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { RuntimeUnavailable } from '../../runtime.ts';
import { FileRefused, type FileRefusal } from '../../files.ts';

/** Linux's O_PATH: the file is held, but neither opened nor read, so that a FIFO or a device does nothing. Node has no name for it. */
const O_PATH = 0o10000000;

/** Holds the file or folder itself, whatever happens to its path. A link that is the last component is held, not followed. */
export function pin(path: string | Buffer): Promise<FileHandle> {
  return open(path, O_PATH | constants.O_NOFOLLOW);
}

/** Returns a path to what the handle holds. The kernel follows it to that very file. */
export function pathOf(handle: FileHandle): string {
  return `/proc/self/fd/${handle.fd}`;
}

/** Returns a path to the name in the folder that the handle holds. */
export function pathIn(folder: FileHandle, name: string): string;
export function pathIn(folder: FileHandle, name: string | Buffer): string | Buffer;
export function pathIn(folder: FileHandle, name: string | Buffer): string | Buffer {
  const above = `${pathOf(folder)}/`;
  return typeof name === 'string' ? above + name : Buffer.concat([Buffer.from(above), name]);
}

const refusals: Readonly<Record<string, FileRefusal>> = {
  ENOENT: 'not_found',
  ELOOP: 'not_found',
  ENOTDIR: 'not_a_directory',
  EISDIR: 'is_a_directory',
  EEXIST: 'exists',
  ENOTEMPTY: 'exists',
  EACCES: 'not_permitted',
  EPERM: 'not_permitted',
  EROFS: 'not_permitted',
  ENXIO: 'not_a_file',
  ENAMETOOLONG: 'invalid_path',
  EINVAL: 'invalid_path',
  EXDEV: 'invalid_path',
  ENOSPC: 'volume_full',
  EDQUOT: 'volume_full',
};

/** Runs the work, and converts the errors of the file system. */
export async function refusing<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? '';
    const reason = refusals[code];
    if (reason !== undefined) throw new FileRefused(reason, { cause: error });
    throw ['EMFILE', 'ENFILE', 'ENOMEM'].includes(code) ? new RuntimeUnavailable(error) : error;
  }
}

/** Returns what the work returns, or null if it fails with one of the codes. */
export async function unless<T>(codes: string[], work: Promise<T>): Promise<T | null> {
  try {
    return await work;
  } catch (error) {
    if (codes.includes((error as NodeJS.ErrnoException).code ?? '')) return null;
    throw error;
  }
}
