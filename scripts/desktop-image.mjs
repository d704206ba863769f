/**
 * Makes the image of computers without any registry of images, for tests: where its Dockerfile begins at an image of Debian, this begins at
 * Debian's packages, and does what the Dockerfile says. It prints the path of a tar that an engine can load. It is made once for each
 * version, outside of the checkout, while other processes that want it wait; what takes minutes is done again only if that part of the
 * Dockerfile has changed.
 */
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { cache, makeOnce, run, say, shortHash } from './go-programs.mjs';

const debian = 'http://deb.debian.org';
const folder = resolve(import.meta.dirname, '../deploy/computer');
const dockerfile = readFileSync(join(folder, 'Dockerfile'), 'utf8');
/** The instructions, each with its arguments. */
const instructions = dockerfile
  .replaceAll(/^#.*\n/gm, '')
  .replaceAll('\\\n', '')
  .trim()
  .split('\n')
  .map((line) => /^([A-Z]+) +(.*)$/.exec(line)?.slice(1) ?? [line, '']);
const [[, base], [, command], ...others] = instructions;
const release = /^debian:(\w+)-slim$/.exec(base)?.[1];
/** A part of the name, so that a change of this script's system layer results in a new image. */
const layout = 1;
const names = readdirSync(join(folder, 'desktop')).toSorted();
const contents = names.map((name) => [name, readFileSync(join(folder, 'desktop', name), 'utf8')]);
const systemKey = shortHash(JSON.stringify([layout, base, command]));
const key = shortHash(JSON.stringify([others, contents]));
const tar = join(cache, `desktop-${systemKey}-${key}.tar`);
const all = ['--sort=name', '--numeric-owner'];

makeOnce(fileURLToPath(import.meta.url), tar, make);

function make() {
  const work = mkdtempSync(join(cache, 'desktop-making-'));
  try {
    const earlier = readdirSync(cache).filter((name) => /^desktop-[0-9a-f]{16}.*\.tar$/.test(name));
    const same = earlier.find((name) => name.startsWith(`desktop-${systemKey}-`));
    if (same === undefined) makeSystem(work);
    else run('tar', ['-C', work, '-xf', join(cache, same), 'system.tar']);
    pack(work, makeFiles(work));
    for (const old of earlier) rmSync(join(cache, old));
    renameSync(join(work, 'image.tar'), tar);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** Builds the layers of Debian's image and of the first command as one. */
function makeSystem(work) {
  say('making the image of computers of Debian’s packages, which takes some minutes once');
  const tree = join(work, 'tree');
  run('debootstrap', ['--variant=minbase', release, tree, `${debian}/debian`]);
  const archives = [`debian ${release}`, `debian ${release}-updates`, `debian-security ${release}-security`];
  writeFileSync(join(tree, 'etc/apt/sources.list'), archives.map((archive) => `deb ${debian}/${archive} main\n`).join(''));
  run('chroot', [tree, '/bin/sh', '-c', command], { env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' } });
  run('tar', [...all, '--one-file-system', '-C', tree, '-cf', 'system.tar', '.'], { cwd: work });
}

/** Builds the layer of the copied files, and returns the image's settings from the other instructions. */
function makeFiles(work) {
  const config = { Env: ['PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'] };
  const words = { WORKDIR: 'WorkingDir', USER: 'User' };
  for (const [name, text] of others) {
    const [from, to] = text.split(' ');
    if (name === 'COPY') {
      mkdirSync(dirname(join(work, 'files', to)), { recursive: true });
      cpSync(join(folder, from), join(work, 'files', to), { recursive: true });
    } else if (name === 'ENV') config.Env.push(...text.split(' '));
    else if (name === 'CMD') config.Cmd = JSON.parse(text);
    else if (words[name] !== undefined) config[words[name]] = text;
    else throw new Error(`What does ${name} of the Dockerfile of computers do? Add it to scripts/desktop-image.mjs.`);
  }
  const readable = ['--owner=0', '--group=0', '--mode=u=rwX,go=rX', '--mtime=@0'];
  run('tar', [...all, ...readable, '-C', join(work, 'files'), '-cf', 'files.tar', '.'], { cwd: work });
  return config;
}

/** Packs the layers as an image, in the format in which engines save images. */
function pack(work, config) {
  const layers = ['system.tar', 'files.tar'];
  const sums = layers.map((layer) => `sha256:${run('sha256sum', [layer], { cwd: work, stdio: 'pipe' }).slice(0, 64)}`);
  const architecture = { x64: 'amd64', arm64: 'arm64' }[process.arch];
  const image = { architecture, os: 'linux', config, rootfs: { type: 'layers', diff_ids: sums } };
  writeFileSync(join(work, 'config.json'), JSON.stringify(image));
  const manifest = [{ Config: 'config.json', RepoTags: [`mooring-test-desktop:${key}`], Layers: layers }];
  writeFileSync(join(work, 'manifest.json'), JSON.stringify(manifest));
  run('tar', [...all, '-cf', 'image.tar', 'manifest.json', 'config.json', ...layers], { cwd: work });
}
