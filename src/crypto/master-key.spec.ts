import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { loadMasterKey } from './master-key.ts';

describe('the master key', () => {
  let dataDir: string;
  const warnings: string[] = [];
  const load = (masterKey: string | null = null) => loadMasterKey({ masterKey, dataDir }, (message) => warnings.push(message));

  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'mooring-key-'));
    warnings.length = 0;
  });
  afterEach(() => rm(dataDir, { recursive: true }));

  it('is created at the first start, readable only for its owner, and found again at the next', async () => {
    const made = await load();
    expect(made).toHaveLength(32);
    expect((await stat(join(dataDir, 'master.key'))).mode & 0o777).toBe(0o600);
    expect(await load()).toEqual(made);
    expect(await readdir(dataDir)).toEqual(['master.key']);
    expect(warnings).toEqual([]);
  });

  it('is the same for starts that race each other', async () => {
    const keys = await Promise.all(Array.from({ length: 10 }, () => load()));
    expect(new Set(keys.map((key) => key.toString('hex'))).size).toBe(1);
    expect(await readdir(dataDir)).toEqual(['master.key']);
  });

  it('comes from the configuration if set there, and then no file is created', async () => {
    const hex = 'ab'.repeat(32);
    expect((await load(hex)).toString('hex')).toBe(hex);
    expect(await readdir(dataDir)).toEqual([]);
  });

  it('refuses an invalid key, and does not change the file', async () => {
    await writeFile(join(dataDir, 'master.key'), 'short\n', { mode: 0o600 });
    await expect(load()).rejects.toThrow('is not 32 bytes');
    expect(await readFile(join(dataDir, 'master.key'), 'utf8')).toBe('short\n');
    await expect(load('00')).rejects.toThrow('MOORING_MASTER_KEY is not 32 bytes');
  });

  it('warns if others may read the file', async () => {
    await load();
    await chmod(join(dataDir, 'master.key'), 0o640);
    await load();
    expect(warnings).toEqual([expect.stringContaining('can be read by others (mode 640)')]);
  });
});
