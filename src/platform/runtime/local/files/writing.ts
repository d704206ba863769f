import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { link, mkdir, open, rename, rmdir, unlink, type FileHandle } from 'node:fs/promises';
import { forceToDisk } from '../../../files.ts';
import { UNFINISHED_PREFIX } from '../../file-paths.ts';
import { FileRefused, type FileWriteOptions } from '../../files.ts';
import { pathIn, pathOf, pin, unless } from './pinned.ts';

/**
 * Writes the content to an unfinished file in the folder, forces it to disk, and then gives it its name. Returns its size. If anything fails,
 * the folder is as it was.
 */
export async function writeAside(
  folder: FileHandle,
  name: string,
  content: AsyncIterable<Buffer>,
  { mode, onTaken }: { mode: number; onTaken: FileWriteOptions['onTaken'] },
): Promise<number> {
  const unfinished = pathIn(folder, UNFINISHED_PREFIX + randomUUID());
  const file = await open(unfinished, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600);
  try {
    let size = 0;
    try {
      for await (const chunk of content) {
        await file.writeFile(chunk);
        size += chunk.length;
      }
      await file.chmod(mode);
      await file.sync();
    } finally {
      await file.close();
    }
    if (onTaken === 'replace') await rename(unfinished, pathIn(folder, name));
    else await link(unfinished, pathIn(folder, name));
    await forceToDisk(pathOf(folder));
    return size;
  } finally {
    await unless(['ENOENT'], unlink(unfinished));
  }
}

/** Creates the folders, each in the one before it, and throws if something else has taken a name. */
export async function makeFolders(above: FileHandle, names: readonly string[]): Promise<void> {
  if (names.includes('..')) throw new FileRefused('not_found');
  let folder = above;
  try {
    for (const name of names) {
      // Another call may have created it in the meantime.
      await unless(['EEXIST'], mkdir(pathIn(folder, name), { mode: 0o755 }));
      const next = await pin(pathIn(folder, name));
      if (folder !== above) await folder.close();
      folder = next;
      if (!(await folder.stat()).isDirectory()) throw new FileRefused('not_a_directory');
    }
  } finally {
    if (folder !== above) await folder.close();
  }
}

/** Renames without replacing anything. A folder can't be linked, so an empty folder takes the new name first. */
export async function moveTo(old: string, next: string, isFolder: boolean): Promise<void> {
  if (!isFolder) {
    await link(old, next);
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
