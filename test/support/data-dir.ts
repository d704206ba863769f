import { realpath, rm } from 'node:fs/promises';
import { join } from 'node:path';

/** Removes the data folder of a service or a server, and its cluster, which may be elsewhere, behind a symbolic link. */
export async function removeDataDir(dataDir: string): Promise<void> {
  const cluster = await realpath(join(dataDir, 'postgres')).catch(() => dataDir);
  await rm(cluster, { recursive: true, force: true });
  await rm(dataDir, { recursive: true, force: true });
}
