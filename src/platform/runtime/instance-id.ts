import { randomBytes, randomUUID } from 'node:crypto';
import { link, mkdir, open, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';

const FILE_NAME = 'instance-id';

/**
 * This installation's id, 12 hex characters: containers and volumes bear it, so that two installations on one engine leave each
 * other's alone. Made at the first start, kept in `<data dir>/instance-id`. Throws where the file holds something else.
 */
export async function instanceId(dataDir: string): Promise<string> {
  const file = join(dataDir, FILE_NAME);
  const written = (await readIfThere(file)) ?? (await makeFile(dataDir, file));
  const id = written.trim();
  if (!/^[0-9a-f]{12}$/.test(id)) throw new Error(`${file} does not hold an instance id (12 hex characters)`);
  return id;
}

/** Linked into place with its content on disk: of two first starts at once one id wins, and nobody reads half of one. */
async function makeFile(dataDir: string, file: string): Promise<string> {
  await mkdir(dataDir, { recursive: true, mode: 0o711 });
  const aside = `${file}.${randomUUID()}`;
  const handle = await open(aside, 'wx');
  try {
    await handle.chmod(0o644);
    await handle.writeFile(`${randomBytes(6).toString('hex')}\n`);
    await handle.sync();
  } finally {
    await handle.close();
  }
  try {
    await link(aside, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    await rm(aside, { force: true });
  }
  return readFile(file, 'utf8');
}

async function readIfThere(file: string): Promise<string | null> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}
