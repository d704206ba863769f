import { randomUUID } from 'node:crypto';
import { mkdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { ContainerSpec } from '../container.ts';
import { RuntimeRefused } from '../runtime.errors.ts';
import { writeJson } from './atomic-file.ts';
import { copyImage } from './copy-tree.ts';
import { readImageRecord, writeImageRecord } from './image-record.ts';
import { PROGRAM_FOLDER, type LocalContainer } from './local-container.ts';
import { moveVirtualEnvironment } from './projects/virtual-environment.ts';

/** Builds the container in a temporary folder and renames it, so that it exists completely or not at all. Throws `RuntimeRefused`. */
export async function makeContainer(imageFolder: string, container: LocalContainer, spec: ContainerSpec): Promise<void> {
  const image = await readImageRecord(imageFolder);
  if (image === null) throw new RuntimeRefused(`there is no image ${spec.image}`);
  const temporary = join(dirname(container.folder), `.new-${randomUUID()}`);
  try {
    await mkdir(join(temporary, 'root'), { recursive: true, mode: 0o700 });
    const program = join(temporary, 'root', PROGRAM_FOLDER);
    await copyImage(join(imageFolder, 'files'), program);
    if (image.builtIn !== undefined) await moveVirtualEnvironment(program, image.builtIn, container.program);
    await writeImageRecord(temporary, image);
    await writeJson(join(temporary, 'spec.json'), spec);
    await rename(temporary, container.folder);
  } catch (error) {
    const taken = ['EEXIST', 'ENOTEMPTY'].includes((error as NodeJS.ErrnoException).code ?? '');
    if (!taken) throw error;
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
}
