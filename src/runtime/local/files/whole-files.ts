import { randomUUID } from 'node:crypto';
import { link, mkdir, open, readlink, rename, rmdir, symlink, unlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { syncDirectory } from '../../../kernel/files.ts';
import { UNFINISHED_PREFIX } from '../../file-paths.ts';
import type { FileWriteOptions } from '../../files.ts';
import { unless } from './file-errors.ts';
import type { LocatedPath } from './real-path.ts';

/**
 * Writes the content to an unfinished file beside the path, flushes it to disk, and then renames it to the path. Returns its size. If
 * anything fails, the folder is unchanged.
 */
export async function writeAside(
  path: string,
  content: AsyncIterable<Buffer>,
  { mode, onTaken }: { mode: number; onTaken: FileWriteOptions['onTaken'] },
): Promise<number> {
  const unfinished = join(dirname(path), UNFINISHED_PREFIX + randomUUID());
  const file = await open(unfinished, 'wx', 0o600);
  try {
    let size: number;
    try {
      await writeFile(file, content);
      await file.chmod(mode);
      await file.sync();
      ({ size } = await file.stat());
    } finally {
      await file.close();
    }
    await (onTaken === 'replace' ? rename : link)(unfinished, path);
    await syncDirectory(dirname(path));
    return size;
  } finally {
    await unless(['ENOENT'], unlink(unfinished));
  }
}

/** Renames without replacing anything. A folder can't be hard-linked, so an empty folder is created at the new name first. */
export async function moveTo({ real: old, stats }: LocatedPath, next: string): Promise<void> {
  if (stats?.isDirectory() !== true) {
    // On some systems, linking a symbolic link follows it.
    if (stats?.isSymbolicLink() === true) await symlink(await readlink(old, 'buffer'), next);
    else await link(old, next);
    await unlink(old);
    return;
  }
  await mkdir(next);
  try {
    await rename(old, next);
  } catch (error) {
    await unless(['ENOENT', 'ENOTEMPTY', 'EEXIST', 'ENOTDIR'], rmdir(next));
    throw error;
  }
}
