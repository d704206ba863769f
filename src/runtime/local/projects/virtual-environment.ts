import { lstat, readdir, readFile, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { programFolders } from '../../project-plan.ts';
import { isMissing } from '../atomic-file.ts';

const ENVIRONMENT_FOLDER = '.venv';
/** Scripts are much smaller; a larger file is a program in machine code. */
const SCRIPT_BYTES_MAX = 1024 * 1024;

/** Returns the PATH with the folders of the project's own programs at its beginning. */
export function withOwnPrograms(project: string, path: string): string {
  return [...programFolders.map((folder) => join(project, folder)), path].join(':');
}

/**
 * Rewrites the scripts and path files of a copied virtual environment for its new location. `project` is the folder where the copy is now,
 * `from` the folder in which it was created, and `to` its final folder.
 */
export async function moveVirtualEnvironment(project: string, from: string, to: string): Promise<void> {
  const environment = join(project, ENVIRONMENT_FOLDER);
  const libraries = (await namesIn(join(environment, 'lib'))).map((name) => join(environment, 'lib', name, 'site-packages'));
  const scripts = (await namesIn(join(environment, 'bin'))).map((name) => join(environment, 'bin', name));
  const paths = (await Promise.all(libraries.map(async (library) => (await namesIn(library)).map((name) => join(library, name)))))
    .flat()
    .filter((path) => /(\.pth|__editable__[^/]*\.py)$/.test(path));
  for (const path of [...scripts, ...paths, join(environment, 'pyvenv.cfg')]) await moveScript(path, from, to);
}

async function moveScript(path: string, from: string, to: string): Promise<void> {
  const facts = await lstat(path).catch(() => null);
  if (facts?.isFile() !== true || facts.size > SCRIPT_BYTES_MAX) return;
  const bytes = await readFile(path);
  if (!bytes.includes(from)) return;
  // latin1 preserves every byte. The file may be a hard link to the image's own, so it is replaced rather than overwritten.
  const [old, next] = [from, to].map((place) => Buffer.from(place).toString('latin1')) as [string, string];
  const text = startedByShell(bytes.toString('latin1'), old).replaceAll(old, next);
  await unlink(path);
  await writeFile(path, text, { encoding: 'latin1', mode: facts.mode & 0o777 });
}

/**
 * Rewrites a first line that names the environment's Python, since kernels truncate long ones. The shell then executes Python in its place.
 */
function startedByShell(script: string, environment: string): string {
  const end = script.indexOf('\n');
  const line = end === -1 ? script : script.slice(0, end);
  if (!line.startsWith(`#!${environment}/`) || line.includes(' ')) return script;
  return `#!/bin/sh\n'''exec' "${line.slice(2).trimEnd()}" "$0" "$@"\n' '''${end === -1 ? '' : script.slice(end)}`;
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}
