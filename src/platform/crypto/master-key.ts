import { randomBytes, randomUUID } from 'node:crypto';
import { link, mkdir, open, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';

import type { Config } from '../../config.ts';
import { masterKeyBytes } from '../../config.ts';

const FILE_NAME = 'master.key';

/**
 * The 32 bytes that wrap every data key: from the configuration, else from `<data dir>/master.key`, which the first start
 * makes (mode 0600, on disk before it is used) and nothing ever overwrites. Throws where what is written is no key.
 * `warn` hears of a file that others may read.
 */
export async function loadMasterKey(config: Pick<Config, 'masterKey' | 'dataDir'>, warn: (message: string) => void): Promise<Buffer> {
  if (config.masterKey !== null) return keyFrom(config.masterKey, 'MOORING_MASTER_KEY');
  const file = join(config.dataDir, FILE_NAME);
  const written = (await readIfThere(file)) ?? (await createKeyFile(config.dataDir, file));
  const key = keyFrom(written.trim(), file);
  const { mode } = await stat(file);
  if (process.platform !== 'win32' && (mode & 0o077) !== 0)
    warn(`${file} can be read by others (mode ${(mode & 0o777).toString(8)}): run chmod 600 on it`);
  return key;
}

function keyFrom(written: string, source: string): Buffer {
  const key = masterKeyBytes(written);
  if (key === null) throw new Error(`the master key in ${source} is not 32 bytes, as base64 or hex`);
  return key;
}

/** Written aside and forced to disk, then linked: the name appears with the whole key at once, and only where none stands. */
async function createKeyFile(dataDir: string, file: string): Promise<string> {
  await mkdir(dataDir, { recursive: true, mode: 0o711 });
  const aside = `${file}.${randomUUID()}`;
  const handle = await open(aside, 'wx', 0o600);
  try {
    await handle.writeFile(`${randomBytes(32).toString('hex')}\n`);
    await handle.sync();
  } finally {
    await handle.close();
  }
  try {
    await link(aside, file);
  } catch (error) {
    // Another start was faster: its key counts.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    await rm(aside, { force: true });
  }
  await forceToDisk(dataDir);
  return readFile(file, 'utf8');
}

/** The name itself must outlive a power cut, or the next start would make another key. */
async function forceToDisk(directory: string): Promise<void> {
  if (process.platform === 'win32') return;
  const handle = await open(directory, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function readIfThere(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
