import { lstat, readdir, readlink } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';

import { RepositoryRefused } from '../git/repository-refused.ts';

/**
 * Returns the folder `root` of the fetched repository, which the rules of the setting have accepted. Throws `RepositoryRefused` if there is no
 * such folder, a link on the way to it, or a link in it that leads out of it, since nothing else of the repository is part of the build.
 */
export async function rootFolder(repository: string, root: string): Promise<string> {
  const named = root.split('/').filter((name) => name !== '' && name !== '.');
  if (named.includes('..')) throw new RepositoryRefused('The folder of the setting root must be in the repository.');
  let folder = repository;
  for (const name of named) {
    folder = join(folder, name);
    const found = await lstat(folder).catch(() => null);
    if (found?.isDirectory() === true) continue;
    const why = found?.isSymbolicLink() === true ? 'is a link, and must be a folder' : 'is not there';
    throw new RepositoryRefused(`The folder ${JSON.stringify(root)}, which the setting root names, ${why}.`);
  }
  if (named.length > 0) await checkLinks(folder, root);
  return folder;
}

/** Links of a fetched repository are relative, and go up at their beginning alone. */
async function checkLinks(folder: string, root: string): Promise<void> {
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isSymbolicLink()) continue;
    const path = join(entry.parentPath, entry.name);
    const place = relative(folder, path);
    const ups = (await readlink(path)).split('/').filter((name) => name === '..').length;
    if (ups >= place.split(sep).length)
      throw new RepositoryRefused(
        `The link ${JSON.stringify(place)} leads out of the folder ${JSON.stringify(root)}, which the setting root names.`,
      );
  }
}
