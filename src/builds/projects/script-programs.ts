import type { PackageJson } from './package-json.ts';

/** Words that a shell runs itself, and programs that every base image has. */
const ofTheImage = new Set(
  'node npm : [ basename cat cd chmod cp cut dirname echo env exec exit export expr false grep head kill ls ln mkdir mv nohup npx printf pwd read rm rmdir sed set sleep sort tail tee test time touch tr trap true umask uname unset wait wc'.split(
    ' ',
  ),
);
/** Programs that run the program that follows them. */
const runners = new Set(['exec', 'env', 'time', 'nohup', 'npx', 'cross-env', 'dotenv']);
const managers = new Set(['npm', 'pnpm', 'yarn', 'bun']);
/** Words of managers between their own name and that of a script. */
const runWords = new Set(['run', 'run-script', 'exec', '--silent', '-s']);
/** Options of managers that have them run scripts of a member of the workspace. */
const ofMembers = /^(-w|-F|-C|-r|--(workspaces?|filter|prefix|cwd|dir|recursive))(=|$)/;
const SCRIPTS_VISITED_MAX = 50;
export const lifecycleScripts = ['preinstall', 'install', 'postinstall', 'prepublish', 'preprepare', 'prepare', 'postprepare'];

/** The programs and words of a command line, and of the scripts of the project that it calls. */
export interface Calls {
  programs: ReadonlySet<string>;
  /** All words, as far as they may be the name of a package, so that those in options are among them. */
  words: ReadonlySet<string>;
}

/**
 * Returns the programs that a command line calls. The shell's grammar is not read exactly: a word too many counts as a program, and nothing is
 * left out.
 */
export function callsOf(scripts: Record<string, string>, line: string): Calls {
  const programs = new Set<string>();
  const words = new Set<string>();
  const visited = new Set<string>();
  const waiting = [line];
  for (let text = waiting.pop(); text !== undefined; text = waiting.pop())
    for (const part of text.split(/[|&;()\n]+/)) {
      const found = part.split(/\s+/).filter((word) => word !== '');
      for (const word of found) for (const piece of word.split(/[=,'"]/)) words.add(packageOf(piece));
      const [called, script] = calledIn(found, scripts, programs);
      if (called !== undefined) programs.add(called);
      if (script === undefined || visited.has(script) || visited.size >= SCRIPTS_VISITED_MAX) continue;
      visited.add(script);
      waiting.push(...[`pre${script}`, script, `post${script}`].map((name) => scripts[name] ?? ''));
    }
  return { programs, words };
}

/** Returns the program that the words call, and the script of the project if it is a manager that runs one. */
function calledIn(words: string[], scripts: Record<string, string>, runnersCalled: Set<string>): [string?, string?] {
  let at = 0;
  const pass = (isPassed: (word: string) => boolean) => {
    while (at < words.length && isPassed(words[at] ?? '')) at += 1;
  };
  const isSetting = (word: string) => /^[A-Za-z_]\w*=/.test(word);
  for (pass(isSetting); runners.has(words[at] ?? ''); pass((word) => isSetting(word) || word.startsWith('-'))) {
    runnersCalled.add(words[at] ?? '');
    at += 1;
  }
  const program = words[at];
  if (program === undefined || !managers.has(program)) return [program];
  at += 1;
  pass((word) => runWords.has(word));
  const next = words[at] ?? '';
  const isElsewhere = words.slice(at).some((word) => ofMembers.test(word));
  if (!isElsewhere && Object.hasOwn(scripts, next)) return [program, next];
  // Bun runs files by itself. Others may run anything: a script of a member of a workspace, or a program of a package.
  return [next === '' || (program === 'bun' && !isElsewhere) ? program : `${program} ${next}`];
}

/** Returns whether the installation runs scripts of the project's own. */
export function hasLifecycle(scripts: Record<string, string>): boolean {
  return lifecycleScripts.some((name) => scripts[name] !== undefined);
}

/**
 * Returns the package or program for which the packages of the development have to stay where this command line is run; null if none is known to
 * be needed. A program that is no package of the production's and none of every image's counts as one of the development's.
 */
export function developmentNeed(
  { scripts, dependencies, devDependencies, optionalDependencies }: PackageJson,
  line: string,
): string | null {
  const { programs, words } = callsOf(scripts, line);
  const isOfProduction = (name: string) => Object.hasOwn(dependencies, name) || Object.hasOwn(optionalDependencies, name);
  const named = Object.keys(devDependencies).find((name) => !isOfProduction(name) && words.has(name));
  if (named !== undefined) return named;
  const isSafe = (program: string) => ofTheImage.has(program) || managers.has(program) || isOfProduction(program);
  return [...programs].find((program) => !isSafe(program)) ?? null;
}

/** Returns the part of a word that may be the name of a package, as `tsx` in `tsx/register`. */
function packageOf(word: string): string {
  return word.split('/', word.startsWith('@') ? 2 : 1).join('/');
}
