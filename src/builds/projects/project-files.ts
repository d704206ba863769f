import { constants } from 'node:fs';
import { lstat, open } from 'node:fs/promises';
import { join } from 'node:path';

import { RuntimeRefused } from '../../runtime/runtime.errors.ts';

const TEXT_BYTES_MAX = 256 * 1024;
const HEAD_BYTES = 64 * 1024;

/** The names that are looked at, and which part of their content is needed. The folder `.mooring` holds the files of a framework's template. */
const parts: Record<string, 'all' | 'head' | 'name'> = {
  'langgraph.json': 'all',
  'pyproject.toml': 'all',
  'openclaw.json': 'name',
  Procfile: 'all',
  'package.json': 'all',
  'package-lock.json': 'name',
  'npm-shrinkwrap.json': 'name',
  'yarn.lock': 'head',
  'pnpm-lock.yaml': 'head',
  'pnpm-workspace.yaml': 'name',
  'bun.lock': 'name',
  'bun.lockb': 'name',
  'bunfig.toml': 'name',
  '.npmrc': 'name',
  '.pnpmfile.cjs': 'name',
  '.yarnrc': 'name',
  '.yarnrc.yml': 'name',
  'binding.gyp': 'name',
  'index.js': 'name',
  'index.ts': 'name',
  'server.js': 'name',
  'server.ts': 'name',
  'uv.lock': 'name',
  'poetry.lock': 'name',
  'Pipfile.lock': 'name',
  Pipfile: 'all',
  'setup.py': 'name',
  'requirements.txt': 'all',
  '.python-version': 'head',
  'runtime.txt': 'head',
  '.nvmrc': 'head',
  '.node-version': 'head',
  'main.py': 'head',
  'app.py': 'head',
  '.mooring/package.json': 'name',
  '.mooring/package-lock.json': 'name',
  '.mooring/requirements.txt': 'name',
  '.mooring/with-node.mjs': 'name',
};

/** The files of a project that decide how it is built. Links and folders of these names are not among them. */
export interface ProjectFiles {
  names: ReadonlySet<string>;
  /** The contents by name. Of lock files and programs it is the beginning only. */
  texts: ReadonlyMap<string, string>;
}

/** Reads them. It never follows a link. Throws `RuntimeRefused` if a file that is read whole has more than 256 KiB. */
export async function readProjectFiles(directory: string): Promise<ProjectFiles> {
  const names = new Set<string>();
  const texts = new Map<string, string>();
  const isFolder = (await lstat(join(directory, '.mooring')).catch(() => null))?.isDirectory() === true;
  for (const [name, part] of Object.entries(parts)) {
    if (name.startsWith('.mooring/') && !isFolder) continue;
    const stats = await lstat(join(directory, name)).catch(() => null);
    if (stats?.isFile() !== true) continue;
    names.add(name);
    if (part === 'name') continue;
    if (part === 'all' && stats.size > TEXT_BYTES_MAX)
      throw new RuntimeRefused(`The file ${name} has more than ${TEXT_BYTES_MAX / 1024} KiB.`);
    texts.set(name, await beginningOf(join(directory, name), part === 'all' ? TEXT_BYTES_MAX : HEAD_BYTES));
  }
  return { names, texts };
}

async function beginningOf(path: string, bytes: number): Promise<string> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const buffer = Buffer.alloc(bytes);
    let length = 0;
    for (let read = -1; read !== 0 && length < bytes; length += read)
      read = (await file.read(buffer, length, bytes - length, length)).bytesRead;
    return buffer.toString('utf8', 0, length).replace(/^\ufeff/, '');
  } finally {
    await file.close();
  }
}
