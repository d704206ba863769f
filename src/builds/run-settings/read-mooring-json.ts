import { constants } from 'node:fs';
import { lstat, open } from 'node:fs/promises';
import { join } from 'node:path';

import { RepositoryRefused } from '../git/repository-refused.ts';
import { MOORING_JSON } from './mooring-json.ts';

const BYTES_MAX = 64 * 1_024;

/** Returns the text of the repository's mooring.json; null if it has none. Throws `RepositoryRefused` for anything but a file of at most 64 KiB. */
export async function readMooringJson(directory: string): Promise<string | null> {
  const path = join(directory, MOORING_JSON);
  const found = await lstat(path).catch(() => null);
  if (found === null) return null;
  if (!found.isFile()) throw new RepositoryRefused(`${MOORING_JSON} must be a file, and neither a link nor a folder.`);
  if (found.size > BYTES_MAX) throw new RepositoryRefused(`${MOORING_JSON} has more than ${BYTES_MAX / 1_024} KiB.`);
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    return await file.readFile('utf8');
  } finally {
    await file.close();
  }
}
