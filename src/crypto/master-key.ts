import { randomBytes } from 'node:crypto';
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';

import type { Config } from '../kernel/config/config.ts';
import { masterKeyBytes } from '../kernel/config/master-key-bytes.ts';
import { readIfExists, writeOnce, writeAtomically } from '../kernel/files.ts';
import { keyIdOf } from './envelope.ts';

const FILE_NAME = 'master.key';
const FILE_MODE = 0o600;

/**
 * Returns the 32 bytes that wrap every data key: from the configuration, else from `<data dir>/master.key`, which the first start creates
 * (mode 0600, on disk before it is used) and only a rotation replaces. Throws if the configured or stored text is not a key. Calls `warn` if
 * other users may read the file.
 */
export async function loadMasterKey(config: Pick<Config, 'masterKey' | 'dataDir'>, warn: (message: string) => void): Promise<Buffer> {
  if (config.masterKey !== null) return keyFrom(config.masterKey, 'MOORING_MASTER_KEY');
  const file = join(config.dataDir, FILE_NAME);
  const written = (await readIfExists(file)) ?? (await writeOnce(file, textOf(randomBytes(32)), FILE_MODE));
  const key = keyFrom(written.trim(), file);
  const { mode } = await stat(file);
  if (process.platform !== 'win32' && (mode & 0o077) !== 0)
    warn(`${file} can be read by others (mode ${(mode & 0o777).toString(8)}): run chmod 600 on it`);
  return key;
}

/**
 * The file `master.key`, and beside it `master.key.<id>` with a new key, from shortly before a rotation begins until the key is in
 * `master.key`: a key is on disk before anything depends on it.
 */
export class MasterKeyFile {
  private readonly file: string;

  constructor(private readonly dataDir: string) {
    this.file = join(dataDir, FILE_NAME);
  }

  /** Returns all keys in the folder. */
  async read(): Promise<Buffer[]> {
    const names = (await readdir(this.dataDir)).filter((name) => /^master\.key(\.[0-9a-f]{16})?$/.test(name));
    const written = await Promise.all(names.map((name) => readIfExists(join(this.dataDir, name))));
    return written.flatMap((text) => masterKeyBytes(text?.trim() ?? '') ?? []);
  }

  /** Stores the key of a rotation that may begin. */
  async prepare(key: Buffer): Promise<void> {
    await writeOnce(this.prepared(key), textOf(key), FILE_MODE);
  }

  /** Removes the key of a rotation that did not begin. */
  async discard(key: Buffer): Promise<void> {
    await rm(this.prepared(key), { force: true });
  }

  /** Replaces the key in `master.key`. */
  async replace(key: Buffer): Promise<void> {
    await writeAtomically(this.file, textOf(key), FILE_MODE);
    await this.discard(key);
  }

  private prepared(key: Buffer): string {
    return `${this.file}.${keyIdOf(key)}`;
  }
}

function textOf(key: Buffer): string {
  return `${key.toString('hex')}\n`;
}

function keyFrom(written: string, source: string): Buffer {
  const key = masterKeyBytes(written);
  if (key === null) throw new Error(`the master key in ${source} is not 32 bytes, as base64 or hex`);
  return key;
}
