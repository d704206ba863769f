import { parse } from 'smol-toml';

import { RuntimeRefused } from '../../runtime/runtime.errors.ts';
import type { Steps } from './node-project.ts';
import type { ProjectFiles } from './project-files.ts';

/** A folder for the tools that read a lock file, which is removed after the installation. */
const TOOLS = '.mooring-tools';
const LOCKED = '.mooring-requirements.txt';
/** A line of requirements.txt, without the spaces before it, that reads other files of the project. */
const otherFiles = /^(-[rcef]\b|--(requirement|constraint|editable|find-links)\b|\.|\/)|\bfile:/;
/** Keys of pyproject.toml beside which packages are taken from the project's own folders. */
const localKeys: ReadonlySet<string> = new Set(['path', 'workspace', 'editable']);
const pip = ['pip', 'install', '--no-cache-dir', '--disable-pip-version-check'];
export const virtualEnvironment = ['python3', '-m', 'venv', '.venv'];
const removeTools = ['python3', '-c', `import os, shutil; shutil.rmtree('${TOOLS}'); os.remove('${LOCKED}')`];

type Table = Record<string, unknown>;

export interface Pyproject {
  /** The requirements of `[project] dependencies`. The value is null if the file has no such table. */
  dependencies: string[] | null;
  isPackage: boolean;
  /** Tells that the project takes packages from its own folders. */
  hasLocalPackages: boolean;
  isCrew: boolean;
}

/** Reads pyproject.toml. Returns null if there is none. Throws `RuntimeRefused` if it is not TOML. */
export function pyprojectOf({ texts }: ProjectFiles): Pyproject | null {
  const text = texts.get('pyproject.toml');
  if (text === undefined) return null;
  const value = tomlOf(text);
  const tool = tableIn(value, 'tool');
  const [poetry, uv, project] = [tableIn(tool, 'poetry'), tableIn(tool, 'uv'), tableIn(value, 'project')];
  const dependencies = project['dependencies'] ?? (value['project'] === undefined ? null : []);
  return {
    dependencies: Array.isArray(dependencies) ? dependencies.filter((item) => typeof item === 'string') : null,
    isPackage: value['build-system'] !== undefined && poetry['package-mode'] !== false && uv['package'] !== false,
    hasLocalPackages: hasKey([poetry, uv['sources'], uv['workspace']], localKeys),
    isCrew: Object.hasOwn(tool, 'crewai'),
  };
}

function tomlOf(text: string): Table {
  try {
    return parse(text);
  } catch {
    throw new RuntimeRefused('The file pyproject.toml is not valid TOML.');
  }
}

/** Returns whether a table within the values has one of the keys, however deep it is. Tables may be nested deeper than a function can call itself. */
function hasKey(values: unknown[], keys: ReadonlySet<string>): boolean {
  const left = [...values];
  while (left.length > 0) {
    const value = left.pop();
    if (typeof value !== 'object' || value === null) continue;
    for (const [key, inner] of Object.entries(value)) {
      if (keys.has(key)) return true;
      left.push(inner);
    }
  }
  return false;
}

function tableIn(table: Table, name: string): Table {
  const value = Object.hasOwn(table, name) ? table[name] : undefined;
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Table) : {};
}

/**
 * Returns how the packages of a Python project are installed, by uv.lock, poetry.lock, pyproject.toml or requirements.txt in this order.
 * Locked packages are installed by pip, so that a mirror that is set for pip serves all of them.
 */
export function pythonSteps(files: ProjectFiles, pyproject: Pyproject | null): Steps {
  const { names, texts } = files;
  const lock = pyproject === null ? undefined : ['uv.lock', 'poetry.lock'].find((name) => names.has(name));
  const build = pyproject?.isPackage === true ? [[...pip, '--no-deps', '.']] : [];
  const whole = (name: string, needsAll: boolean, manifests: string[], install: string[][], after = build): Steps => ({
    found: `a Python project (${name})`,
    manifests: needsAll ? ['.'] : manifests,
    install: [virtualEnvironment, ...install],
    build: after,
  });
  if (lock !== undefined) return whole(lock, pyproject?.hasLocalPackages === true, ['pyproject.toml', lock], lockedInstall(lock));
  if (names.has('requirements.txt')) {
    const requirements = texts.get('requirements.txt') ?? '';
    return whole('requirements.txt', readsOtherFiles(requirements), ['requirements.txt'], [[...pip, '-r', 'requirements.txt']]);
  }
  if (pyproject === null) return whole('no list of packages', false, [], []);
  const { dependencies } = pyproject;
  if (dependencies === null || pyproject.hasLocalPackages) return whole('pyproject.toml', true, [], [[...pip, '.']], []);
  return whole('pyproject.toml', false, ['pyproject.toml'], dependencies.length === 0 ? [] : [pipPackages(dependencies)]);
}

function readsOtherFiles(requirements: string): boolean {
  return requirements.split(/[\r\n]/).some((line) => otherFiles.test(line.trimStart()));
}

/** Returns the command that installs these packages. Throws `RuntimeRefused` if one of them is no requirement but an option. */
export function pipPackages(requirements: string[]): string[] {
  const bad = requirements.find((requirement) => !/^[A-Za-z0-9]/.test(requirement));
  if (bad !== undefined) throw new RuntimeRefused(`The Python project names a package that is none: ${JSON.stringify(bad.slice(0, 100))}.`);
  return [...pip, ...requirements];
}

export function pipFile(name: string): string[] {
  return [...pip, '-r', name];
}

function lockedInstall(lock: string): string[][] {
  const tool = (name: string) => `${TOOLS}/bin/${name}`;
  const packages = lock === 'uv.lock' ? ['uv<1'] : ['poetry>=2,<3', 'poetry-plugin-export>=1.9,<2'];
  const read =
    lock === 'uv.lock'
      ? [tool('uv'), 'export', '--frozen', '--no-dev', '--no-emit-project', '--no-header', '--quiet', '-o', LOCKED]
      : [tool('poetry'), 'export', '--only', 'main', '-f', 'requirements.txt', '-o', LOCKED];
  return [['python3', '-m', 'venv', TOOLS], [tool('pip'), ...pip.slice(1), ...packages], read, [...pip, '-r', LOCKED], removeTools];
}
