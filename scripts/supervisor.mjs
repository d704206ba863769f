/**
 * Compiles the supervisor for both processors into supervisor/bin, with their SHA-256 beside them. With --check it compares what it compiled with
 * what stands there, byte for byte. With --compiler it prints a Python that has the compiler. The compiler is a package of the Python registry, pinned by version and kept outside of the checkout.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ziglang = '0.17.1';
const targets = { amd64: 'x86_64-linux-musl', arm64: 'aarch64-linux-musl' };
const flags =
  '-static -Os -std=c11 -Wall -Wextra -Wshadow -Wconversion -Werror -ffunction-sections -fdata-sections -Wl,--gc-sections -s'.split(' ');

const sources = fileURLToPath(new URL('../supervisor/', import.meta.url));
const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'mooring-test');

if (process.argv.includes('--compiler')) {
  console.log(python());
  process.exit();
}

const built = Object.entries(targets).map(([name, target]) => ({ file: `supervisor-${name}`, content: compiled(target) }));
const sums = built.map(({ file, content }) => `${createHash('sha256').update(content).digest('hex')}  ${file}\n`).join('');
const wanted = [...built, { file: 'SHA256SUMS', content: Buffer.from(sums) }];

if (process.argv.includes('--check')) {
  const other = wanted.filter(({ file, content }) => !content.equals(existing(file)));
  for (const { file } of other) console.error(`supervisor/bin/${file} is not what its sources make: run node scripts/supervisor.mjs`);
  process.exitCode = other.length === 0 ? 0 : 1;
} else {
  mkdirSync(join(sources, 'bin'), { recursive: true });
  for (const { file, content } of wanted)
    writeFileSync(join(sources, 'bin', file), content, { mode: file === 'SHA256SUMS' ? 0o644 : 0o755 });
}

function existing(file) {
  const path = join(sources, 'bin', file);
  return existsSync(path) ? readFileSync(path) : Buffer.alloc(0);
}

function compiled(target) {
  const folder = mkdtempSync(join(tmpdir(), 'mooring-supervisor-'));
  try {
    const names = readdirSync(sources).filter((name) => name.endsWith('.c'));
    const words = ['-m', 'ziglang', 'cc', '-target', target, ...flags, '-o', join(folder, 'out'), ...names.toSorted()];
    const env = { ...process.env, ZIG_GLOBAL_CACHE_DIR: join(cache, 'zig'), ZIG_LOCAL_CACHE_DIR: join(cache, 'zig') };
    execFileSync(python(), words, { cwd: sources, env, stdio: ['ignore', 'inherit', 'inherit'] });
    return readFileSync(join(folder, 'out'));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Returns a Python that has the compiler. */
function python() {
  const place = join(cache, `ziglang-${ziglang}`);
  const found = join(place, 'bin/python3');
  if (existsSync(found)) return found;
  mkdirSync(cache, { recursive: true });
  const making = mkdtempSync(join(cache, 'making-'));
  const run = (program, ...words) => execFileSync(program, words, { stdio: ['ignore', 'ignore', 'inherit'] });
  run('python3', '-m', 'venv', making);
  run(join(making, 'bin/python3'), '-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', `ziglang==${ziglang}`);
  try {
    renameSync(making, place);
  } catch {
    // Another process was faster.
    rmSync(making, { recursive: true, force: true });
  }
  return found;
}
