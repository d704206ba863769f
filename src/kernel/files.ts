import { randomUUID } from 'node:crypto';
import { link, mkdir, open, readFile, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Returns the file's text, or null if there is no file. */
export async function readIfExists(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

/**
 * Replaces the file by the text atomically and durably: if the process or the machine dies, the file has either the old or the new text.
 */
export async function writeAtomically(path: string, text: string, mode: number): Promise<void> {
  const aside = await writeTemporary(path, text, mode);
  await rename(aside, path);
  await syncDirectory(dirname(path));
}

/** Creates the file if it does not exist, completely and on disk; of concurrent calls one wins. Returns the file's text afterwards. */
export async function writeOnce(path: string, text: string, mode: number): Promise<string> {
  await mkdir(dirname(path), { recursive: true, mode: 0o711 });
  const aside = await writeTemporary(path, text, mode);
  try {
    await link(aside, path);
  } catch (error) {
    // Another call was faster, and its text counts.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    await rm(aside, { force: true });
  }
  await syncDirectory(dirname(path));
  return readFile(path, 'utf8');
}

async function writeTemporary(path: string, text: string, mode: number): Promise<string> {
  const aside = `${path}.${randomUUID()}`;
  const handle = await open(aside, 'wx', mode);
  try {
    await handle.chmod(mode);
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
  return aside;
}

/** Forces the directory to disk, so that a new name in it survives a power loss. */
export async function syncDirectory(directory: string): Promise<void> {
  if (process.platform === 'win32') return;
  const handle = await open(directory, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
