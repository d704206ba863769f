import { realpath, rm } from 'node:fs/promises';
import { join } from 'node:path';

/** The state that global-setup.ts leaves for global-teardown.ts; both are loaded in the same process. */
export const shared: { stop: () => Promise<void> } = { stop: () => Promise.resolve() };

/** Removes the data folder and its cluster, which may be elsewhere, behind a symbolic link. */
export async function removeDataDir(dataDir: string): Promise<void> {
  const cluster = await realpath(join(dataDir, 'postgres')).catch(() => dataDir);
  await rm(cluster, { recursive: true, force: true });
  await rm(dataDir, { recursive: true, force: true });
}
