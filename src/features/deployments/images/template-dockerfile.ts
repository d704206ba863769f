import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { Builder } from '../../../kernel/config/config.ts';
import type { DockerfileSource } from '../../../runtime/image-source.ts';
import type { DockerfileFolder } from '../../templates/index.ts';
import { basesOf } from '../../../builds/dockerfiles/dockerfile-bases.ts';

/**
 * Returns the source of a template with a Dockerfile. The operator chose the images in it, so every account may use them. The engine's
 * builder fetches them itself.
 */
export async function templateDockerfile(folder: DockerfileFolder, accountId: string, builder: Builder): Promise<DockerfileSource> {
  if (builder === 'engine') return { ...folder, accountId };
  const names = basesOf(await readFile(join(folder.directory, folder.dockerfile), 'utf8'), builder);
  const mayUse = async (): Promise<boolean> => true;
  return { ...folder, accountId, bases: names.map((reference) => ({ kind: 'reference', reference, mayUse })) };
}
