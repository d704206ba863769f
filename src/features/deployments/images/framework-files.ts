import { cp, lstat } from 'node:fs/promises';
import { join } from 'node:path';

import { RepositoryRefused } from '../../../builds/git/repository-refused.ts';
import type { Template } from '../../templates/index.ts';

const TARGET_FOLDER = '.mooring';

/**
 * Copies the files that a framework's template adds to a repository from its folder `project` into the repository's folder `.mooring`.
 * Throws `RepositoryRefused` if this installation has no such files, or the repository has such a folder already.
 */
export async function addFrameworkFiles(
  directory: string,
  framework: string,
  template: Pick<Template, 'source'> | undefined,
): Promise<void> {
  const folder = template !== undefined && 'directory' in template.source ? join(template.source.directory, 'project') : null;
  const found = folder === null ? null : await lstat(folder).catch(() => null);
  if (folder === null || found?.isDirectory() !== true)
    throw new RepositoryRefused(
      `This installation has no template that runs ${framework} projects of repositories: give the repository a Dockerfile, or a Procfile without the files of ${framework}.`,
    );
  if ((await lstat(join(directory, TARGET_FOLDER)).catch(() => null)) !== null)
    throw new RepositoryRefused(`The repository has a ${TARGET_FOLDER} of its own, a name that the files of ${framework} need.`);
  await cp(folder, join(directory, TARGET_FOLDER), { recursive: true, preserveTimestamps: true });
}
