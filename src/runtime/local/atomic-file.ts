import { randomUUID } from 'node:crypto';
import { access, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** Writes the whole file or nothing, even if the process is killed. */
export async function writeText(path: string, text: string): Promise<void> {
  const temporary = `${path}.${randomUUID()}.tmp`;
  await writeFile(temporary, text, { mode: 0o600 });
  await rename(temporary, path);
}

/** Writes the value as `writeText` does. */
export async function writeJson(path: string, value: unknown): Promise<void> {
  await writeText(path, JSON.stringify(value));
}

/** Returns the file's content, or null if there is no such file. */
export async function readJson<T>(path: string): Promise<T | null> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as T;
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

/** Removes a folder in one step, and then frees its space. A missing folder is no error. */
export async function removeFolder(path: string): Promise<void> {
  const trash = join(dirname(path), `.trash-${randomUUID()}`);
  try {
    await rename(path, trash);
  } catch (error) {
    if (isMissing(error)) return;
    throw error;
  }
  await rm(trash, { recursive: true, force: true, maxRetries: 3 });
}

/** Removes what a process that died during `removeFolder` left in this folder. */
export async function removeTrash(folder: string): Promise<void> {
  for (const name of await readdir(folder)) if (name.startsWith('.trash-')) await rm(join(folder, name), { recursive: true, force: true });
}

export async function exists(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

export function isMissing(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException).code;
  return code === 'ENOENT' || code === 'ENOTDIR';
}
