import { randomUUID } from 'node:crypto';
import { link, mkdir, open, readFile, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';

/** The file's text, or null where there is none. */
export async function readIfThere(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

/** Replaces the file with all of the text, on disk, or leaves it as it was, whenever the process or the machine dies. */
export async function writeWhole(path: string, text: string, mode: number): Promise<void> {
  const aside = await written(path, text, mode);
  await rename(aside, path);
  await forceToDisk(dirname(path));
}

/** Makes the file where none stands, all of it at once and on disk; of two makers one wins. Answers what stands then. */
export async function writeOnce(path: string, text: string, mode: number): Promise<string> {
  await mkdir(dirname(path), { recursive: true, mode: 0o711 });
  const aside = await written(path, text, mode);
  try {
    await link(aside, path);
  } catch (error) {
    // Another maker was faster: what it wrote counts.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    await rm(aside, { force: true });
  }
  await forceToDisk(dirname(path));
  return readFile(path, 'utf8');
}

async function written(path: string, text: string, mode: number): Promise<string> {
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

/** The name itself must outlive a power cut. */
export async function forceToDisk(directory: string): Promise<void> {
  if (process.platform === 'win32') return;
  const handle = await open(directory, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
