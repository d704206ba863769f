import { randomBytes } from 'node:crypto';
import { join } from 'node:path';

import { readIfThere, writeOnce } from '../files.ts';

const FILE_NAME = 'instance-id';

/**
 * This installation's id, 12 hex characters: containers and volumes bear it, so that two installations on one engine leave each
 * other's alone. Made at the first start, kept in `<data dir>/instance-id`. Throws where the file holds something else.
 */
export async function instanceId(dataDir: string): Promise<string> {
  const file = join(dataDir, FILE_NAME);
  const written = (await readIfThere(file)) ?? (await writeOnce(file, `${randomBytes(6).toString('hex')}\n`, 0o644));
  const id = written.trim();
  if (!/^[0-9a-f]{12}$/.test(id)) throw new Error(`${file} does not hold an instance id (12 hex characters)`);
  return id;
}
