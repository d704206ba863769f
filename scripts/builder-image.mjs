/**
 * Makes the image of the builders without any registry of images, for tests: BuildKit from its Go module, the rest from Debian's packages. It prints
 * the path of a tar that an engine can load. It is made once for each version, outside of the checkout, while other processes that want it wait.
 */
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { cache, goProgram, makeOnce, moduleFolder, run, say, shortHash } from './go-programs.mjs';

const buildkit = 'v0.34.2';
const packages = ['busybox-static', 'runc', 'tini', 'uidmap', 'util-linux'];
const programs = ['bin/busybox', 'usr/sbin/runc', 'usr/bin/tini', 'usr/bin/newuidmap', 'usr/bin/newgidmap', 'usr/bin/unshare'];
/** The ids of the host that builders may run as: those of builder-names.ts. */
const ids = 'root:1879048192:268435456\n';

// These two files make the image, so a change of either makes another one.
const key = shortHash(['builder-image.mjs', 'go-programs.mjs'].map((name) => readFileSync(join(import.meta.dirname, name), 'utf8')).join());
const tar = join(cache, `builder-${key}.tar`);

makeOnce(fileURLToPath(import.meta.url), tar, make);

function make() {
  say(`making the image of the builders (BuildKit ${buildkit}), which takes some minutes once`);
  const work = mkdtempSync(join(cache, 'making-'));
  try {
    const tree = join(work, 'tree');
    mkdirSync(join(tree, 'usr/local/bin'), { recursive: true });
    addPrograms(work, tree);
    compile(work, join(tree, 'usr/local/bin'));
    addFolders(tree);
    pack(work, tree);
    for (const old of readdirSync(cache)) if (/^builder-.*\.tar$/.test(old)) rmSync(join(cache, old));
    renameSync(join(work, 'image.tar'), tar);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** Adds programs of Debian's packages, without the rights that some give to who starts them, and the libraries that they need. */
function addPrograms(work, tree) {
  const folder = join(work, 'packages');
  mkdirSync(folder);
  const download = () => run('apt-get', ['download', '-qq', '-o', 'APT::Sandbox::User=root', ...packages], { cwd: folder });
  try {
    download();
  } catch {
    // A machine without lists of packages, or with old ones, finds them after an update.
    run('apt-get', ['update', '-qq']);
    download();
  }
  for (const file of readdirSync(folder)) run('dpkg-deb', ['-x', file, 'files'], { cwd: folder });
  for (const program of programs) {
    const source = [join(folder, 'files', program), join(folder, 'files/usr', program)].find((path) => existsSync(path));
    if (source === undefined) throw new Error(`The packages of Debian have no ${program}.`);
    copy(source, join(tree, program), 0o755);
    const listed = spawnSync('ldd', [source], { encoding: 'utf8' }).stdout;
    if (listed.includes('not found')) throw new Error(`This machine lacks a library that ${program} needs:\n${listed}`);
    for (const [, library] of listed.matchAll(/^\s*(?:\S+ => )?(\/\S+) \(0x/gm)) copy(realpathSync(library), join(tree, library), 0o755);
  }
  copy(join(tree, 'bin/busybox'), join(tree, 'usr/local/lib/mooring/busybox'), 0o755);
}

function compile(work, into) {
  const go = goProgram();
  if (go === null) throw new Error('There is no Go to build BuildKit with: install the package golang-go.');
  const env = { ...process.env, CGO_ENABLED: '0', GOFLAGS: '', GOTOOLCHAIN: process.env.GOTOOLCHAIN ?? 'auto' };
  // Built where it lies, since it has settings that hold only for the main module.
  const words = ['build', '-trimpath', '-buildvcs=false', '-ldflags=-s -w', '-o', `${into}/`, './cmd/buildkitd', './cmd/buildctl'];
  run('nice', [go, ...words], { env, cwd: moduleFolder(go, `github.com/moby/buildkit@${buildkit}`, { env, cwd: work }) });
}

function addFolders(tree) {
  const text = (name, content) => {
    mkdirSync(dirname(join(tree, name)), { recursive: true });
    writeFileSync(join(tree, name), content);
  };
  text('etc/passwd', 'root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n');
  text('etc/group', 'root:x:0:\nnogroup:x:65534:\n');
  text('etc/subuid', ids);
  text('etc/subgid', ids);
  for (const name of ['dev', 'proc', 'sys']) mkdirSync(join(tree, name), { recursive: true });
  for (const name of ['run', 'tmp', 'var/lib/buildkit']) {
    mkdirSync(join(tree, name), { recursive: true });
    chmodSync(join(tree, name), 0o1777);
  }
}

/** Packs the folder as an image with one layer, in the form in which engines save images. */
function pack(work, tree) {
  const all = ['--sort=name', '--mtime=@0', '--owner=0', '--group=0', '--numeric-owner'];
  run('tar', [...all, '-C', tree, '-cf', 'layer.tar', '.'], { cwd: work });
  const layer = run('sha256sum', ['layer.tar'], { cwd: work, stdio: 'pipe' }).slice(0, 64);
  const config = {
    architecture: { x64: 'amd64', arm64: 'arm64' }[process.arch],
    os: 'linux',
    config: { Env: ['PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'] },
    rootfs: { type: 'layers', diff_ids: [`sha256:${layer}`] },
  };
  writeFileSync(join(work, 'config.json'), JSON.stringify(config));
  writeFileSync(
    join(work, 'manifest.json'),
    JSON.stringify([{ Config: 'config.json', RepoTags: [`mooring-test-builder:${key}`], Layers: ['layer.tar'] }]),
  );
  run('tar', [...all, '-cf', 'image.tar', 'manifest.json', 'config.json', 'layer.tar'], { cwd: work });
}

function copy(source, target, mode) {
  mkdirSync(dirname(target), { recursive: true });
  copyFileSync(source, target);
  chmodSync(target, mode);
}
