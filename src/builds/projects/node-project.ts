import { RuntimeRefused } from '../../runtime/runtime.errors.ts';
import { commandOf, type Command } from './command-words.ts';
import type { ProjectFiles } from './project-files.ts';

const manifestNames = [
  'package.json',
  'package-lock.json',
  'npm-shrinkwrap.json',
  'yarn.lock',
  'pnpm-lock.yaml',
  '.npmrc',
  '.yarnrc',
  '.yarnrc.yml',
];
const SCRIPTS_FOLLOWED_MAX = 5;
/** Names of packages that are in the project itself, so that an installation reads more than the manifests. */
const localPackage = /^(file:|link:|portal:|patch:|workspace:|\.{0,2}\/|~\/)/;
export const npmQuiet = ['--no-audit', '--no-fund'];

export interface PackageJson {
  main: string | null;
  scripts: Record<string, string>;
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
  optionalDependencies: Record<string, string>;
  packageManager: string;
  hasWorkspaces: boolean;
}

/** The commands that install and build a project of one language, and the files that the installation reads. */
export interface Steps {
  found: string;
  manifests: string[];
  install: string[][];
  build: string[][];
}

/** Reads package.json. Returns null if there is none. Throws `RuntimeRefused` if it is not a JSON object. */
export function packageJsonOf({ texts }: ProjectFiles): PackageJson | null {
  const text = texts.get('package.json');
  if (text === undefined) return null;
  const value = jsonObject(text, 'package.json');
  return {
    main: typeof value['main'] === 'string' && value['main'] !== '' ? value['main'] : null,
    scripts: textsOf(value['scripts']),
    dependencies: textsOf(value['dependencies']),
    devDependencies: textsOf(value['devDependencies']),
    optionalDependencies: textsOf(value['optionalDependencies']),
    packageManager: typeof value['packageManager'] === 'string' ? value['packageManager'] : '',
    hasWorkspaces: value['workspaces'] !== undefined,
  };
}

/** Returns the JSON object in a file's text. Throws `RuntimeRefused` for anything else. */
export function jsonObject(text: string, name: string): Record<string, unknown> {
  const value = parsed(text);
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new RuntimeRefused(`The file ${name} is not a JSON object.`);
  return value as Record<string, unknown>;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function textsOf(value: unknown): Record<string, string> {
  if (typeof value !== 'object' || value === null) return {};
  return Object.fromEntries(Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === 'string'));
}

/** Returns how the packages of a Node project are installed, by its lock file, and how it is built. */
export function nodeSteps(files: ProjectFiles, manifest: PackageJson): Steps {
  const { scripts, dependencies, devDependencies, optionalDependencies } = manifest;
  const hasBuild = scripts['build'] !== undefined;
  const hasDev = Object.keys(devDependencies).length > 0;
  const hasPackages = hasDev || Object.keys({ ...dependencies, ...optionalDependencies }).length > 0;
  const manager = managerOf(files, manifest);
  const needsAll = readsMore(files, manifest);
  const manifests = needsAll ? ['.'] : manifestNames.filter((name) => files.names.has(name));
  const isBare = manager.lock === null && !hasPackages && !needsAll;
  return {
    found: `a Node project (package.json${manager.lock === null ? '' : `, ${manager.lock}`})`,
    manifests,
    install: isBare ? [] : [manager.install(hasBuild)],
    build: hasBuild ? [[...manager.run, 'build'], ...(hasDev ? manager.prune : [])] : [],
  };
}

interface Manager {
  lock: string | null;
  install(withDevelopment: boolean): string[];
  run: string[];
  /** The command that removes the packages that only the build needed. */
  prune: string[][];
}

function managerOf({ names, texts }: ProjectFiles, { packageManager }: PackageJson): Manager {
  const [, named, version] = /^(npm|yarn|pnpm)@(\d+\.\d+\.\d+)/.exec(packageManager) ?? [];
  if (names.has('pnpm-lock.yaml')) {
    const isOld = /^lockfileVersion: '?[56]\./m.test(texts.get('pnpm-lock.yaml') ?? '');
    const pnpm = ['npx', '--yes', `pnpm@${named === 'pnpm' ? version : isOld ? '8' : '10'}`];
    return {
      lock: 'pnpm-lock.yaml',
      install: (dev) => [...pnpm, 'install', '--frozen-lockfile', dev ? '--prod=false' : '--prod'],
      run: ['npm', 'run'],
      prune: [[...pnpm, 'prune', '--prod', '--ignore-scripts']],
    };
  }
  if (names.has('yarn.lock')) {
    const isFirst = !/^__metadata:/m.test(texts.get('yarn.lock') ?? '');
    const yarn = isFirst
      ? ['npx', '--yes', 'yarn@1']
      : ['npx', '--yes', '--package', `@yarnpkg/cli-dist@${named === 'yarn' ? version : '4'}`, 'yarn'];
    return {
      lock: 'yarn.lock',
      install: (dev) =>
        isFirst
          ? [...yarn, 'install', '--frozen-lockfile', '--non-interactive', `--production=${!dev}`]
          : [...yarn, 'install', '--immutable'],
      run: ['npm', 'run'],
      prune: [],
    };
  }
  const lock = ['npm-shrinkwrap.json', 'package-lock.json'].find((name) => names.has(name)) ?? null;
  return {
    lock,
    install: (dev) => ['npm', lock === null ? 'install' : 'ci', dev ? '--include=dev' : '--omit=dev', ...npmQuiet],
    run: ['npm', 'run'],
    prune: [['npm', 'prune', '--omit=dev', '--ignore-scripts', ...npmQuiet]],
  };
}

/** Returns whether the installation reads more of the project than its manifests: packages in its folders, and scripts of its own. */
function readsMore({ names }: ProjectFiles, manifest: PackageJson): boolean {
  const { scripts, dependencies, devDependencies, optionalDependencies } = manifest;
  const versions = Object.values({ ...dependencies, ...devDependencies, ...optionalDependencies });
  return (
    manifest.hasWorkspaces ||
    ['pnpm-workspace.yaml', '.pnpmfile.cjs', 'binding.gyp', '.yarnrc.yml'].some((name) => names.has(name)) ||
    ['preinstall', 'install', 'postinstall', 'prepare', 'prepublish'].some((name) => scripts[name] !== undefined) ||
    versions.some((version) => localPackage.test(version))
  );
}

/** Returns how a Node project is started: the script `start`, `main`, index.js or server.js. Throws `RuntimeRefused` if it has none of them. */
export function nodeStart({ names }: ProjectFiles, manifest: PackageJson): Command {
  const { scripts, main } = manifest;
  if (scripts['start'] !== undefined) return scriptCommand(scripts, 'start', 0) ?? { words: ['npm', 'start'], env: {} };
  const file = main ?? ['index.js', 'server.js'].find((name) => names.has(name));
  if (file === undefined)
    throw new RuntimeRefused('The Node project does not say how it is started: give its package.json a script "start", or a "main".');
  return { words: ['node', file.startsWith('-') ? `./${file}` : file], env: {} };
}

/** Returns the program that a script starts, so that it runs without npm and a shell around it. Returns null if they are needed. */
function scriptCommand(scripts: Record<string, string>, name: string, followed: number): Command | null {
  const script = scripts[name];
  if (script === undefined || scripts[`pre${name}`] !== undefined || scripts[`post${name}`] !== undefined) return null;
  const command = commandOf(script);
  if (command === null) return null;
  const [manager = '', ...rest] = command.words;
  if (!['npm', 'yarn', 'pnpm'].includes(manager)) return command;
  const [next, ...more] = rest[0] === 'run' ? rest.slice(1) : rest;
  if (next === undefined || more.length > 0 || followed >= SCRIPTS_FOLLOWED_MAX) return null;
  const inner = scriptCommand(scripts, next, followed + 1);
  return inner === null ? null : { words: inner.words, env: { ...command.env, ...inner.env } };
}
