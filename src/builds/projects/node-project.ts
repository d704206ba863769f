import { RuntimeRefused } from '../../runtime/runtime.errors.ts';
import { commandOf, type Command } from './command-words.ts';
import { managerOf } from './node-managers.ts';
import type { PackageJson } from './package-json.ts';
import type { ProjectFiles } from './project-files.ts';
import { developmentNeed, hasLifecycle } from './script-programs.ts';

const manifestNames = [
  'package.json',
  'package-lock.json',
  'npm-shrinkwrap.json',
  'yarn.lock',
  'pnpm-lock.yaml',
  'bun.lock',
  'bun.lockb',
  'bunfig.toml',
  '.npmrc',
  '.yarnrc',
  '.yarnrc.yml',
];
const SCRIPTS_FOLLOWED_MAX = 5;
/** Names of packages that are in the project itself, so that an installation reads more than the manifests. */
const localPackage = /^(file:|link:|portal:|patch:|workspace:|\.{0,2}\/|~\/)/;

/** The commands that install and build a project of one language, and the files that the installation reads. */
export interface Steps {
  found: string;
  manifests: string[];
  install: string[][];
  build: string[][];
  /** Sentences for the build log. */
  notes?: string[];
}

/**
 * Returns how the packages of a Node project are installed, by the manager of its lock file, and how it is built. `start` is the command line
 * that will start it, as far as it is the project's own: what it needs of the packages of the development stays.
 */
export function nodeSteps(files: ProjectFiles, manifest: PackageJson, start: string): Steps {
  const { scripts, dependencies, devDependencies, optionalDependencies } = manifest;
  const manager = managerOf(files, manifest);
  const hasBuild = scripts['build'] !== undefined;
  const hasPackages = Object.keys({ ...dependencies, ...devDependencies, ...optionalDependencies }).length > 0;
  const hasDevelopment = Object.keys(devDependencies).length > 0 || hasMembers(files, manifest);
  const need = hasDevelopment ? developmentNeed(manifest, start) : null;
  const withDevelopment = hasBuild || (hasDevelopment && (need !== null || hasLifecycle(scripts)));
  const prune = withDevelopment && hasDevelopment && need === null ? manager.prune : [];
  const needsAll = readsBeyondManifests(files, manifest);
  const isBare = manager.lock === null && manager.setup.length === 0 && !hasPackages && !needsAll;
  const install = [...manager.setup, manager.install(withDevelopment), ...(hasBuild ? [] : prune)];
  return {
    found: `a Node project (package.json${manager.lock === null ? '' : `, ${manager.lock}`})`,
    manifests: needsAll ? ['.'] : manifestNames.filter((name) => files.names.has(name)),
    install: isBare ? [] : install,
    build: hasBuild ? [[manager.name, 'run', 'build'], ...prune] : [],
    notes: need === null ? [] : [`Packages of the development stay, since the start calls ${need}`],
  };
}

function hasMembers({ names }: ProjectFiles, { hasWorkspaces }: PackageJson): boolean {
  return hasWorkspaces || names.has('pnpm-workspace.yaml');
}

/** Returns whether the installation reads more of the project than its manifests: packages in its folders, and scripts of its own. */
function readsBeyondManifests(files: ProjectFiles, manifest: PackageJson): boolean {
  const { scripts, dependencies, devDependencies, optionalDependencies } = manifest;
  const versions = Object.values({ ...dependencies, ...devDependencies, ...optionalDependencies });
  return (
    hasMembers(files, manifest) ||
    ['.pnpmfile.cjs', 'binding.gyp', '.yarnrc.yml'].some((name) => files.names.has(name)) ||
    hasLifecycle(scripts) ||
    versions.some((version) => localPackage.test(version))
  );
}

/** Returns how a Node project is started: the script `start`, `main`, index.js or server.js. Throws `RuntimeRefused` if it has none of them. */
export function nodeStart(files: ProjectFiles, manifest: PackageJson): Command {
  const { scripts } = manifest;
  if (scripts['start'] !== undefined) return scriptCommand(scripts, 'start', 0) ?? { words: ['npm', 'start'], env: {} };
  const { main, module } = manifest;
  const isBun = managerOf(files, manifest).name === 'bun';
  const names = [...(isBun ? ['index.ts', 'server.ts'] : []), 'index.js', 'server.js'];
  const file = main ?? (isBun ? module : null) ?? names.find((name) => files.names.has(name));
  if (file === undefined)
    throw new RuntimeRefused('The Node project does not say how it is started: give its package.json a script "start", or a "main".');
  return { words: [isBun ? 'bun' : 'node', file.startsWith('-') ? `./${file}` : file], env: {} };
}

/** Returns the command line that starts a Node project, for what it needs to run. */
export function startLine({ scripts }: PackageJson): string {
  return scripts['start'] === undefined ? '' : 'npm run start';
}

/** Returns the program that a script starts, so that it runs without a manager and a shell around it. Returns null if they are needed. */
function scriptCommand(scripts: Record<string, string>, name: string, followed: number): Command | null {
  const script = scripts[name];
  if (script === undefined || scripts[`pre${name}`] !== undefined || scripts[`post${name}`] !== undefined) return null;
  const command = commandOf(script);
  if (command === null) return null;
  const [manager = '', ...rest] = command.words;
  if (!['npm', 'yarn', 'pnpm', 'bun'].includes(manager)) return command;
  const [next = '', ...more] = rest[0] === 'run' ? rest.slice(1) : rest;
  // Bun runs files, too.
  if (manager === 'bun' && scripts[next] === undefined) return command;
  if (next === '' || more.length > 0 || followed >= SCRIPTS_FOLLOWED_MAX) return null;
  const inner = scriptCommand(scripts, next, followed + 1);
  return inner === null ? null : { words: inner.words, env: { ...command.env, ...inner.env } };
}
