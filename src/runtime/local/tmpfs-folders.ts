import { mkdir, rm } from 'node:fs/promises';
import type { ContainerSpec } from '../container.ts';
import { tmpfsPaths, type LocalContainer } from './local-container.ts';

/**
 * Creates the folders that stand in for in-memory ones, empty at each start. Folders of the volume and of the program are left unchanged.
 */
export async function makeTmpfsFolders(container: LocalContainer, spec: ContainerSpec): Promise<void> {
  for (const path of tmpfsPaths(spec)) {
    const folder = container.hostPath(spec, path);
    if (container.homeOf(folder) === container.volume || container.program.startsWith(folder)) continue;
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { recursive: true, mode: 0o700 });
  }
}
