import { execFile, execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { cp, mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';

import Dockerode from 'dockerode';

import { importNodeImage } from './images.ts';

const root = resolve(import.meta.dirname, '../..');
const run = promisify(execFile);
/** Programs of this machine that the Dockerfile and the service itself start. */
const PROGRAMS = ['/bin/bash', '/usr/bin/ldd', '/usr/bin/env', '/bin/mkdir', '/bin/rm', '/bin/busybox'];

/** Runs the Docker CLI; throws with its output if it fails. */
export async function docker(...words: string[]): Promise<string> {
  const environment = { ...process.env, DOCKER_BUILDKIT: '0' };
  try {
    return (await run('docker', words, { env: environment, maxBuffer: 64 << 20 })).stdout;
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    throw new Error(`docker ${words[0] ?? ''} failed: ${stderr.slice(-2_000)}\n${stdout.slice(-4_000)}`, { cause: error });
  }
}

/** The names of the images that `buildServiceImage` builds: the service's, that of its first stage, and their base. */
export function serviceImages(tag: string): [service: string, build: string, base: string] {
  return [`mooring-test-service:${tag}`, `mooring-test-service-build:${tag}`, `mooring-test-service-base:${tag}`];
}

/**
 * Builds the service's image with its Dockerfile, without a pull: the base has this machine's own Node, npm and shell instead of Debian's.
 */
export async function buildServiceImage(tag: string): Promise<void> {
  const [service, build, base] = serviceImages(tag);
  await buildBase(base);
  const registry = execFileSync('npm', ['config', 'get', 'registry'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  const words = ['build', '--network', 'host', '--build-arg', `NODE_IMAGE=${base}`, '--build-arg', `NPM_CONFIG_REGISTRY=${registry}`];
  // The first stage has a name too, so that it can be removed.
  await docker(...words, '--target', 'build', '--tag', build, root);
  await docker(...words, '--tag', service, root);
}

async function buildBase(name: string): Promise<void> {
  const context = await mkdtemp(join(tmpdir(), 'mooring-base-'));
  try {
    const compiler = join(root, 'node_modules/@swc');
    const addOns = readdirSync(compiler, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.node'));
    const binaries = [...PROGRAMS, ...addOns.map((file) => join(compiler, file))];
    for (const path of [...PROGRAMS, ...new Set(binaries.flatMap(librariesOf))]) await copy(path, join(context, 'root', path));
    const npm = dirname(dirname(await realpath(execFileSync('which', ['npm'], { encoding: 'utf8' }).trim())));
    const local = join(context, 'root/usr/local');
    await copy(npm, join(local, 'lib/node_modules/npm'));
    await mkdir(join(local, 'bin'), { recursive: true });
    await symlink('../lib/node_modules/npm/bin/npm-cli.js', join(local, 'bin/npm'));
    await symlink('bash', join(context, 'root/bin/sh'));
    const node = await importNodeImage(new Dockerode());
    const certificates = 'ENV NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt';
    await writeFile(join(context, 'Dockerfile'), `FROM ${node}\nCOPY root/ /\n${certificates}\n`);
    await docker('build', '--tag', name, context);
  } finally {
    await rm(context, { recursive: true, force: true });
  }
}

async function copy(from: string, to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true });
  await cp(await realpath(from), to, { recursive: true, dereference: true });
}

function librariesOf(program: string): string[] {
  try {
    const said = execFileSync('ldd', [program], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
    return [...said.matchAll(/^\s*(?:\S+ => )?(\/\S+) \(0x/gm)].map((match) => match[1] ?? '');
  } catch {
    // A script, or a program that needs none.
    return [];
  }
}
