import { managerFolder } from '../../runtime/project-plan.ts';
import type { ProjectFiles } from './project-files.ts';
import type { PackageJson } from './package-json.ts';
import { callsOf, lifecycleScripts } from './script-programs.ts';

export const npmQuiet = ['--no-audit', '--no-fund'];

type ManagerName = 'npm' | 'pnpm' | 'yarn' | 'bun';

const lockFiles: Record<ManagerName, string[]> = {
  pnpm: ['pnpm-lock.yaml'],
  yarn: ['yarn.lock'],
  bun: ['bun.lock', 'bun.lockb'],
  npm: ['npm-shrinkwrap.json', 'package-lock.json'],
};
const named = /^(npm|pnpm|yarn|bun)(?:@[\^~>=v]{0,3}(\d+(?:\.\d+(?:\.\d+(?:-[0-9A-Za-z.-]+)?)?)?))?/;

/** The way in which one package manager installs a project and runs its scripts. */
export interface Manager {
  name: ManagerName;
  /** The lock file that it reads; null if the project has none of its. */
  lock: string | null;
  /** The commands that put the manager itself on PATH, for the build and for the agent. npm is there already. */
  setup: string[][];
  install(withDevelopment: boolean): string[];
  /** The command that removes the packages of the development; none if the manager has no such command. */
  prune: string[][];
}

/**
 * Returns the manager of a project: the one that its package.json names, or else that of its lock file, or the one that its scripts call.
 */
export function managerOf(files: ProjectFiles, manifest: PackageJson): Manager {
  const [, asked, version = null] = named.exec(manifest.packageManager) ?? [];
  const name = (asked as ManagerName | undefined) ?? managerOfLock(files) ?? managerOfScripts(manifest);
  const lock = lockFiles[name].find((file) => files.names.has(file)) ?? null;
  const text = lock === null ? '' : (files.texts.get(lock) ?? '');
  switch (name) {
    case 'pnpm':
      return pnpm(lock, version ?? pnpmOf(text));
    case 'yarn':
      return yarn(lock, version ?? yarnOf(text, files));
    case 'bun':
      return bun(lock, version ?? '1');
    case 'npm':
      return npm(lock);
  }
}

function managerOfLock({ names }: ProjectFiles): ManagerName | undefined {
  return (['pnpm', 'yarn', 'bun', 'npm'] as const).find((name) => lockFiles[name].some((file) => names.has(file)));
}

function managerOfScripts({ scripts }: PackageJson): ManagerName {
  const called = ['build', 'start', ...lifecycleScripts].flatMap((name) => [...callsOf(scripts, scripts[name] ?? '').programs]);
  return (['pnpm', 'yarn', 'bun'] as const).find((name) => called.some((program) => program.split(' ')[0] === name)) ?? 'npm';
}

/** Returns the version that reads the lock file as it is. */
function pnpmOf(lock: string): string {
  const [, version = ''] = /^lockfileVersion: '?(\d+)\./m.exec(lock) ?? [];
  return { '5': '7', '6': '8' }[version] ?? '10';
}

function yarnOf(lock: string, { names }: ProjectFiles): string {
  const [, version] = /^__metadata:\r?\n {2}version: (\d+)/m.exec(lock) ?? [];
  if (version !== undefined) return Number(version) < 7 ? '3' : '4';
  return /^__metadata:/m.test(lock) || (lock === '' && names.has('.yarnrc.yml')) ? '4' : '1';
}

/** Returns the command that installs the manager beside the project's own packages, without a word in its manifests. */
function setupOf(spec: string): string[][] {
  return [['npm', 'install', '--prefix', managerFolder, '--no-save', '--no-package-lock', ...npmQuiet, spec]];
}

function pnpm(lock: string | null, version: string): Manager {
  const frozen = lock === null ? '--no-frozen-lockfile' : '--frozen-lockfile';
  return {
    name: 'pnpm',
    lock,
    setup: setupOf(`pnpm@${version}`),
    install: (dev) => ['pnpm', 'install', frozen, dev ? '--prod=false' : '--prod'],
    prune: [['pnpm', 'prune', '--prod', '--ignore-scripts', '--config.confirmModulesPurge=false']],
  };
}

function yarn(lock: string | null, version: string): Manager {
  if (/^[01](\.|$)/.test(version)) {
    const frozen = lock === null ? [] : ['--frozen-lockfile'];
    return {
      name: 'yarn',
      lock,
      setup: setupOf(`yarn@${version}`),
      install: (dev) => ['yarn', 'install', ...frozen, '--non-interactive', `--production=${!dev}`],
      prune: [],
    };
  }
  return {
    name: 'yarn',
    lock,
    setup: setupOf(`@yarnpkg/cli-dist@${version}`),
    install: () => ['yarn', 'install', lock === null ? '--no-immutable' : '--immutable'],
    prune: [],
  };
}

function bun(lock: string | null, version: string): Manager {
  const frozen = lock === null ? [] : ['--frozen-lockfile'];
  return {
    name: 'bun',
    lock,
    setup: setupOf(`bun@${version}`),
    install: (dev) => ['bun', 'install', ...frozen, ...(dev ? [] : ['--production'])],
    prune: [],
  };
}

function npm(lock: string | null): Manager {
  return {
    name: 'npm',
    lock,
    setup: [],
    install: (dev) => ['npm', lock === null ? 'install' : 'ci', dev ? '--include=dev' : '--omit=dev', ...npmQuiet],
    prune: [['npm', 'prune', '--omit=dev', '--ignore-scripts', ...npmQuiet]],
  };
}
