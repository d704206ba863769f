/**
 * Makes a newer Docker Engine than that of the machine, for tests: `dockerd` and `docker-proxy` from the engine's Go module. It prints the
 * folder with both; containerd, runc and docker-init are the machine's own. It is made once for each version, outside of the checkout.
 * Without Go it ends with the exit code 77, which says that what needs this engine can't be run.
 */
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { cache, goProgram, makeOnce, moduleFolder, run, say, shortHash } from './go-programs.mjs';

const LEFT_OUT = 77;

/** The newest version that is served as a Go module. */
const version = '28.5.2';
const engine = 'github.com/docker/docker';
const settings = [
  '-tags=exclude_graphdriver_btrfs',
  // The module has no go.mod, so Go would treat it as version 1.16, in which all iterations of a loop share one variable.
  `-gcflags=${engine}/...=-lang=go1.24`,
  `-ldflags=-s -w -X ${engine}/dockerversion.Version=${version}`,
];
const folder = join(cache, `docker-${version}-${shortHash(settings.join())}`);

const go = goProgram();
if (go === null) {
  say(`Docker ${version} can't be made, and nothing is run on it: there is no Go. Install the package golang-go.`);
  process.exit(LEFT_OUT);
}
makeOnce(fileURLToPath(import.meta.url), folder, make);

function make() {
  say(`making Docker ${version}, which takes some ten minutes once`);
  const work = mkdtempSync(join(cache, 'making-'));
  try {
    const made = join(work, 'made');
    mkdirSync(made);
    const env = { ...process.env, CGO_ENABLED: '0', GOFLAGS: '-buildvcs=false -mod=mod', GOTOOLCHAIN: process.env.GOTOOLCHAIN ?? 'auto' };
    const source = moduleFolder(go, `${engine}@v${version}+incompatible`, { env, cwd: work });
    // The versions of its dependencies are in files of its own.
    const needs = readFileSync(join(source, 'vendor.mod'), 'utf8').replace(/^module .*$/m, 'module engine');
    writeFileSync(join(work, 'go.mod'), needs.replace('require (', `require (\n\t${engine} v${version}+incompatible`));
    copyFileSync(join(source, 'vendor.sum'), join(work, 'go.sum'));
    const programs = ['dockerd', 'docker-proxy'].map((name) => `${engine}/cmd/${name}`);
    run('nice', [go, 'build', ...settings, '-o', `${made}/`, ...programs], { env, cwd: work });
    renameSync(made, folder);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}
