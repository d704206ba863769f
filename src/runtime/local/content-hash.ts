import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { lstat, readdir, readlink } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { RuntimeRefused } from '../runtime.errors.ts';
import { isMissing } from './atomic-file.ts';

const FILES_MAX = 50_000;

/**
 * Returns the hash, in hexadecimal, of `head` and of the folder's files with their paths, without the top-level entries in `leftOut`.
 * Throws `RuntimeRefused` if the folder can't be read, has too many files, or contains anything besides files and folders.
 */
export async function contentHash(directory: string, head: unknown, leftOut: readonly string[], signal: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  hash.update(JSON.stringify(head));
  let files = 0;
  const walk = async (relative: string): Promise<void> => {
    for (const name of (await readdir(join(directory, relative))).sort()) {
      if (relative === '' && leftOut.includes(name)) continue;
      signal.throwIfAborted();
      if (++files > FILES_MAX) throw new RuntimeRefused(`the program has more than ${FILES_MAX} files`);
      const path = join(relative, name);
      if (await hashEntry(hash, directory, path)) await walk(path);
    }
  };
  try {
    await walk('');
  } catch (error) {
    if (isMissing(error)) throw new RuntimeRefused(`the program's folder can't be read: ${basename(directory)}`, { cause: error });
    throw error;
  }
  return hash.digest('hex');
}

/** Adds the entry to the hash. Returns true for a folder. */
async function hashEntry(hash: Hash, directory: string, path: string): Promise<boolean> {
  const full = join(directory, path);
  const facts = await lstat(full);
  if (facts.isDirectory()) {
    hash.update(JSON.stringify(['folder', path]));
    return true;
  }
  if (facts.isSymbolicLink()) {
    hash.update(JSON.stringify(['link', path, await readlink(full)]));
    return false;
  }
  if (!facts.isFile()) throw new RuntimeRefused(`the program holds something that is no file: ${path}`);
  hash.update(JSON.stringify(['file', path, (facts.mode & 0o111) !== 0, facts.size]));
  await pipeline(createReadStream(full), async (chunks: AsyncIterable<Buffer>) => {
    for await (const chunk of chunks) hash.update(chunk);
  });
  return false;
}
