import { mkdir, rm } from 'node:fs/promises';
import type { ContainerSpec } from '../container.ts';
import { tmpfsPaths, type LocalContainer } from './local-container.ts';

/** Makes the folders that stand for those in memory, empty as those are at each start. What the volume and the program have is left as it is. */
export async function makeTmpfsFolders(container: LocalContainer, spec: ContainerSpec): Promise<void> {
  for (const path of tmpfsPaths(spec)) {
    const folder = container.hostPath(spec, path);
    if (container.homeOf(folder) === container.volume || container.program.startsWith(folder)) continue;
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { recursive: true, mode: 0o700 });
  }
}
