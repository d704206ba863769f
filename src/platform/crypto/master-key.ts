import { randomBytes } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';

import { type Config, masterKeyBytes } from '../config/config.ts';
import { readIfThere, writeOnce } from '../files.ts';

const FILE_NAME = 'master.key';

/**
 * Returns the 32 bytes that wrap every data key: from the configuration, else from `<data dir>/master.key`, which the first start creates
 * (mode 0600, on disk before it is used) and nothing ever overwrites. Throws if the configured or stored text is not a key. Calls `warn` if
 * other users may read the file.
 */
export async function loadMasterKey(config: Pick<Config, 'masterKey' | 'dataDir'>, warn: (message: string) => void): Promise<Buffer> {
  if (config.masterKey !== null) return keyFrom(config.masterKey, 'MOORING_MASTER_KEY');
  const file = join(config.dataDir, FILE_NAME);
  const written = (await readIfThere(file)) ?? (await writeOnce(file, `${randomBytes(32).toString('hex')}\n`, 0o600));
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
