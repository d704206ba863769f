/** Programs that are built from Go modules for tests, once for each version, and kept outside of the checkout. */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, join } from 'node:path';

const goVersion = 'go1.26.8';

/** The folder of what is made once. */
export const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'mooring-test');

/** Prints the path after `make` has made what lies there, unless it is there already. Other processes that run the script wait meanwhile. */
export function makeOnce(script, path, make) {
  const isLocked = process.argv.includes('--locked');
  if (!existsSync(path)) {
    mkdirSync(cache, { recursive: true });
    if (isLocked) make();
    else
      run('flock', [join(cache, `${basename(script)}.lock`), process.execPath, script, '--locked'], {
        stdio: ['ignore', 'ignore', 'inherit'],
      });
  }
  if (!isLocked) console.log(path);
}

export function shortHash(text) {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}

/** Returns the folder of a module's source, which is downloaded if it is not there. */
export function moduleFolder(go, module, options) {
  return JSON.parse(run(go, ['mod', 'download', '-json', module], { ...options, stdio: 'pipe' })).Dir;
}

/** Returns a Go that can build today's modules, or null. A Go before 1.21 gets no other version by itself, but has the newer one as a module. */
export function goProgram() {
  const found = ['go', '/usr/local/go/bin/go'].find((path) => spawnSync(path, ['version']).status === 0);
  if (found === undefined) return null;
  const minor = Number(/go1\.(\d+)/.exec(spawnSync(found, ['version'], { encoding: 'utf8' }).stdout)?.[1] ?? 0);
  if (minor >= 21) return found;
  const machine = { x64: 'amd64', arm64: 'arm64' }[process.arch];
  const folder = moduleFolder(found, `golang.org/toolchain@v0.0.1-${goVersion}.linux-${machine}`, { cwd: cache });
  const toolchain = join(cache, goVersion);
  if (!existsSync(join(toolchain, 'bin/go'))) {
    run('cp', ['-r', folder, toolchain]);
    run('chmod', ['-R', 'u+w', toolchain]);
    run('chmod', ['-R', '+x', join(toolchain, 'bin'), join(toolchain, 'pkg/tool')]);
  }
  process.env.GOTOOLCHAIN = 'local';
  return join(toolchain, 'bin/go');
}

export function run(program, words, options = {}) {
  const { status, error, stdout } = spawnSync(program, words, { encoding: 'utf8', stdio: ['ignore', 2, 2], ...options });
  if (error !== undefined) throw error;
  if (status !== 0) throw new Error(`${program} ${words.slice(0, 3).join(' ')} failed with exit code ${status}`);
  return stdout;
}

export function say(line) {
  console.error(`[mooring] ${line}`);
}
