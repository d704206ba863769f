import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { DockerFixture } from '../../../../test/support/docker-fixture.ts';
import { busyboxEntries } from '../../../../test/support/images.ts';
import { requirePrograms } from '../../../../test/support/private-engine.ts';
import { until } from '../../../../test/support/until.ts';
import type { ContainerSpec, ContainerView } from '../../container.ts';
import { tarOf, type TarEntry } from '../image-sources/build-context.ts';
import { machineProgram } from '../image-sources/machine-programs.ts';
import { importImage } from '../image-sources/registry.ts';

const SECRET = 'canary-99ab';
const compilerScript = fileURLToPath(new URL('../../../../scripts/supervisor.mjs', import.meta.url));
const processor = { x64: 'x86_64', arm64: 'aarch64' }[process.arch as 'x64'];
const program = (name: string, content: Buffer): TarEntry => ({ name, type: 'file', mode: 0o755, content });
const folder = (name: string): TarEntry => ({ name, type: 'directory', mode: 0o755 });

/** A program without a shell: it says that it runs, ends with 7 at SIGTERM and with 9 at SIGUSR1, and has a child if it is told to. */
const source = `
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void end(int number) { _exit(number == SIGTERM ? 7 : 9); }
int main(int count, char **words) {
  if (count > 1 && strcmp(words[1], "say") == 0) return puts(getenv("SECRET")) < 0;
  signal(SIGTERM, end);
  signal(SIGUSR1, end);
  if (count > 1 && strcmp(words[1], "fork") == 0 && fork() != 0) { write(1, "ready\\n", 6); for (;;) pause(); }
  if (count > 1) { signal(SIGTERM, SIG_IGN); for (;;) pause(); }
  write(1, "ready\\n", 6);
  for (;;) pause();
}
`;

describe('an agent whose image', () => {
  let bed: DockerFixture;
  let here: string;
  let compiler: string;
  let images = 0;

  beforeAll(async () => {
    requirePrograms('tini');
    compiler = execFileSync(process.execPath, [compilerScript, '--compiler'], { encoding: 'utf8' }).trim();
    bed = await DockerFixture.open();
    here = mkdtempSync(join(tmpdir(), 'mooring-images-'));
    writeFileSync(join(here, 'program.c'), source);
  });
  afterAll(async () => {
    await bed?.close();
    rmSync(here, { recursive: true, force: true });
  });

  /** Compiles the program for a library, with the compiler of the supervisor. */
  function compiled(library: 'gnu' | 'musl', linking: '-static' | '-dynamic'): string {
    const out = join(here, `program-${library}${linking}`);
    const words = [
      '-m',
      'ziglang',
      'cc',
      '-target',
      `${processor}-linux-${library}`,
      linking,
      '-Os',
      '-fno-sanitize=all',
      '-s',
      '-o',
      out,
      join(here, 'program.c'),
    ];
    execFileSync(compiler, words, { stdio: ['ignore', 'ignore', 'inherit'] });
    return out;
  }

  async function imageOf(entries: TarEntry[], changes: string[]): Promise<string> {
    const name = `mooring-test-${bed.instance}:image-${images++}`;
    await importImage(bed.docker, tarOf(entries), name, changes, timeoutSignal(60_000));
    bed.remember(name);
    return name;
  }

  const exited = (view: ContainerView) =>
    until('the container has ended', async () => {
      const now = await bed.state(view);
      return now?.state === 'exited' ? now : undefined;
    });

  /** Runs an agent of the image, a command in it, calls on its files, and stops it in time. Returns its exit code. */
  async function codeOf(image: string, command: string[], other: Partial<ContainerSpec> = {}): Promise<number | null | undefined> {
    const view = await bed.running({ image, environment: { SECRET }, ...other });
    await until('it is ready', async () => ((await bed.runtime.lastLines(view.handle, 1))[0] === 'ready' ? true : undefined));
    const { stdout } = await bed.runtime.exec(view.handle, { argv: command, timeoutMs: 10_000, outputLimitBytes: 100 });
    expect(stdout.toString()).toBe(`${SECRET}\n`);
    expect(await bed.runtime.files.makeDirectory(view.handle, 'made', { parents: false, signal: timeoutSignal(10_000) })).toMatchObject({
      created: true,
    });
    const began = performance.now();
    await bed.runtime.stop(view.handle, 10);
    // An agent that does not hear of its stop is killed after ten seconds.
    expect(performance.now() - began).toBeLessThan(9_000);
    const { exitCode } = await exited(view);
    await bed.runtime.remove(view.handle);
    return exitCode;
  }

  it('is nothing but one static program, and has no shell', async () => {
    const own = compiled('musl', '-static');
    const image = await imageOf([program('agent', readFileSync(own))], ['ENTRYPOINT ["/agent"]']);
    expect(await codeOf(image, ['/agent', 'say'])).toBe(7);
    expect(await codeOf(image, ['/agent', 'say'], { user: '10001:10001', readOnlyRoot: true })).toBe(7);
    // The shell and the usual programs of a command come from the helper.
    const view = await bed.running({ image, environment: { SECRET } });
    expect(await bed.output(view, 'echo "$SECRET"; id -u')).toBe(`${SECRET}\n0\n`);
    await bed.runtime.remove(view.handle);
  });

  it('has the GNU library', async () => {
    const own = compiled('gnu', '-dynamic');
    expect(await codeOf(await imageOf(await machineProgram(own, 'agent'), ['ENTRYPOINT ["/agent"]']), ['/agent', 'say'])).toBe(7);
  });

  it('has the musl library', async () => {
    const loader = `/lib/ld-musl-${processor}.so.1`;
    if (!existsSync(loader)) throw new Error('This test needs a machine with musl, and was not run.');
    const own = compiled('musl', '-dynamic');
    expect(readFileSync(own).includes(loader)).toBe(true);
    const entries = [folder('lib'), program(loader.slice(1), readFileSync(loader)), program('agent', readFileSync(own))];
    expect(await codeOf(await imageOf(entries, ['ENTRYPOINT ["/agent"]']), ['/agent', 'say'])).toBe(7);
  });

  it.each<[string, () => Buffer, RegExp]>([
    [
      'an entry script with carriage returns',
      () => Buffer.from('#!/bin/sh\r\nexec "$@"\r\n'),
      /^\/entry: its first line ends in a carriage return, .* \(\/bin\/sh\)/,
    ],
    [
      'an entry script whose interpreter it lacks',
      () => Buffer.from('#!/usr/bin/env python3\n'),
      /^\/entry: the interpreter .* is not there: \/usr\/bin\/env$/,
    ],
    [
      'a program whose loader it lacks',
      () => readFileSync(compiled('gnu', '-dynamic')),
      /^\/entry: the loader .* is not there: link it statically/,
    ],
  ])('has %s: it ends, and its output and that of a command say so', async (_, content, said) => {
    const entry = program('entry', content());
    const view = await bed.running({ image: await imageOf([entry], ['ENTRYPOINT ["/entry"]']) });
    expect(await exited(view)).toMatchObject({ exitCode: 127 });
    expect(await bed.runtime.lastLines(view.handle, 5)).toEqual([expect.stringMatching(said)]);
    await bed.runtime.remove(view.handle);
    const other = await bed.running({ image: await imageOf([...(await busyboxEntries()), entry], ['CMD ["/bin/sleep", "300"]']) });
    const { exitCode, stderr } = await bed.runtime.exec(other.handle, { argv: ['/entry'], timeoutMs: 10_000, outputLimitBytes: 1_000 });
    expect([exitCode, stderr.toString().trim()]).toEqual([127, expect.stringMatching(said)]);
    await bed.runtime.remove(other.handle);
  });

  it('has an init program of its own, which is not the first process', async () => {
    const entries = [...(await busyboxEntries()), ...(await machineProgram('/usr/bin/tini', 'usr/bin/tini'))];
    const script = 'trap \\"exit 7\\" TERM; echo ready; while :; do sleep 0.1; done';
    const changes = ['ENV PATH=/bin TINI_SUBREAPER=1', `ENTRYPOINT ["/usr/bin/tini", "--", "/bin/sh", "-c", "${script}"]`];
    expect(await codeOf(await imageOf(entries, changes), ['/bin/sh', '-c', 'echo "$SECRET"'])).toBe(7);
  });

  it('asks for another signal than SIGTERM', async () => {
    const own = compiled('musl', '-static');
    // The engine's import of an image takes no STOPSIGNAL; a container that is committed does.
    const base = await imageOf([program('agent', readFileSync(own))], ['ENTRYPOINT ["/agent"]']);
    const model = await bed.docker.createContainer({ Image: base, StopSignal: 'SIGUSR1' });
    const { Id } = (await model.commit({ repo: `mooring-test-${bed.instance}`, tag: 'signal' })) as { Id: string };
    await model.remove();
    bed.remember(`mooring-test-${bed.instance}:signal`);
    expect(await codeOf(Id, ['/agent', 'say'])).toBe(9);
  });

  it('has an entry point that forks: what it left behind does not keep the container up', async () => {
    const own = compiled('musl', '-static');
    const image = await imageOf([program('agent', readFileSync(own))], ['ENTRYPOINT ["/agent"]', 'CMD ["fork"]']);
    expect(await codeOf(image, ['/agent', 'say'])).toBe(7);
    const away = await bed.running({ command: ['/bin/sh', '-c', 'sleep 300 & exit 5'] });
    expect(await exited(away)).toMatchObject({ exitCode: 5 });
  });
});
