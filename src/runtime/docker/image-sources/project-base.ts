import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdir, realpath, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type Dockerode from 'dockerode';
import { RuntimeRefused } from '../../runtime.errors.ts';
import { folderEntries, tarOf, type TarEntry } from './build-context.ts';
import { fixedEntries, librariesOf, machineProgram, toolEntries, withFolders } from './machine-programs.ts';
import { findImage, importImage } from './registry.ts';

const run = promisify(execFile);
/** The version of the layout. It is part of the tag, so that a change of the content results in a new image. */
const LAYOUT_VERSION = 3;
const PROGRAM_TIMEOUT_MS = 30_000;
/** Parts of Python's library that no agent needs. Packages installed on this machine do not belong to a project. */
const leftOut = /^(site-packages|dist-packages|test|idlelib|turtledemo|lib2to3|config-.*|EXTERNALLY-MANAGED)$/;
const askPython = `
import ensurepip, json, sys, sysconfig, venv
paths = sysconfig.get_paths()
print(json.dumps([sys.version.split()[0], sys.executable, sys.base_prefix, paths["stdlib"]]))
`;

/**
 * Ensures a base image for projects from this machine's own Node and npm, or its Python. It is built once for each version, and only for an
 * engine on this machine. Returns its name. Throws `RuntimeRefused` if this machine lacks a program.
 */
export async function ensureProjectBase(docker: Dockerode, language: 'node' | 'python', signal: AbortSignal): Promise<string> {
  const { key, entries, path } = await (language === 'node' ? nodeParts() : pythonParts());
  const hash = createHash('sha256')
    .update(JSON.stringify([LAYOUT_VERSION, key]))
    .digest('hex');
  const name = `mooring-base-project-${language}:${hash.slice(0, 16)}`;
  if ((await findImage(docker, name)) !== null) return name;
  const all = [...fixedEntries(), ...(await toolEntries()), ...(await entries())];
  await importImage(
    docker,
    tarOf(withFolders(all)),
    name,
    [`ENV PATH=${path}`, `CMD ["${language === 'node' ? 'node' : 'python3'}"]`],
    signal,
  );
  return name;
}

interface Parts {
  key: unknown;
  path: string;
  entries: () => Promise<TarEntry[]>;
}

async function nodeParts(): Promise<Parts> {
  const node = await realpath(process.execPath);
  const npm = join(dirname(node), '../lib/node_modules/npm');
  const [program, manifest] = await Promise.all([stat(node), stat(join(npm, 'package.json')).catch(() => null)]);
  if (manifest === null)
    throw new RuntimeRefused('No image of Node was reached, and the Node of this machine has no npm beside it to build with.');
  const into = 'usr/local/lib/node_modules/npm/';
  const link = (name: string): TarEntry => ({
    name: `usr/local/bin/${name}`,
    type: 'symlink',
    mode: 0o777,
    linkname: `../../../${into}bin/${name}-cli.js`,
  });
  return {
    key: [process.version, program.size, program.mtimeMs, manifest.size, manifest.mtimeMs],
    path: '/usr/local/bin:/usr/bin:/bin',
    entries: async () => {
      // The machine's own npm settings do not apply to its agents.
      const files = (await folderEntries(npm, into)).filter(({ name }) => name !== `${into}npmrc`);
      return [...(await machineProgram(node, 'usr/local/bin/node')), ...files, link('npm'), link('npx')];
    },
  };
}

async function pythonParts(): Promise<Parts> {
  const lacking = 'No image of Python was reached, and this machine has no Python 3 with the module venv to build with.';
  const asked = await run('python3', ['-I', '-c', askPython], { timeout: PROGRAM_TIMEOUT_MS }).catch(() => null);
  if (asked === null) throw new RuntimeRefused(lacking);
  const [version, executable, prefix, library] = JSON.parse(asked.stdout) as [string, string, string, string];
  const program = await realpath(executable);
  const { size, mtimeMs } = await stat(program);
  const folder = join(prefix, 'bin').slice(1);
  const link = (name: string): TarEntry => ({ name: `${folder}/${name}`, type: 'symlink', mode: 0o777, linkname: program });
  return {
    key: [version, program, size, mtimeMs],
    path: `/${folder}:/usr/local/bin:/usr/bin:/bin`,
    entries: async () => {
      const files = await libraryEntries(library);
      const modules = files.filter(({ name, source }) => source !== undefined && name.endsWith('.so'));
      const needed = await librariesOf(...modules.map(({ name }) => `/${name}`));
      return [...(await machineProgram(program, program.slice(1))), ...needed, ...files, link('python3'), link('python')];
    },
  };
}

async function libraryEntries(library: string): Promise<TarEntry[]> {
  const entries: TarEntry[] = [];
  for (const { name } of await readdir(library, { withFileTypes: true })) {
    if (leftOut.test(name)) continue;
    const path = join(library, name);
    const stats = await stat(path);
    if (stats.isDirectory()) entries.push(...(await folderEntries(path, `${path.slice(1)}/`)));
    else if (stats.isFile()) entries.push({ name: path.slice(1), type: 'file', mode: 0o644, source: path });
  }
  return entries;
}
