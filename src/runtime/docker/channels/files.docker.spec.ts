import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { extract } from 'tar-stream';
import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { DockerFixture } from '../../../../test/support/docker-fixture.ts';
import { until } from '../../../../test/support/until.ts';
import type { ContainerView } from '../../container.ts';
import { RuntimeRefused } from '../../runtime.errors.ts';

const soon = () => timeoutSignal(30_000);
const options = { maxBytes: 1_000, reserve: null, onTaken: 'replace' as const, parents: true, signal: soon() };

describe('the files of a container', () => {
  let bed: DockerFixture;
  let view: ContainerView;

  beforeAll(async () => {
    bed = await DockerFixture.open();
    view = await bed.running();
  });
  afterAll(() => bed?.close());

  /** The programs for files that run in the container. */
  /**
   * Returns the number of calls that are under way: the others are the attached supervisor and the one that looks after the look itself.
   */
  const running = async () => Number(await bed.output(view, 'ps | grep -c "[s]upervisor attach"')) - 2;

  it('are reached in an image without a single program, with a read-only root, by a user without a name', async () => {
    const bare = await bed.running({ user: '12345', readOnlyRoot: true });
    const { files } = bed.runtime;
    expect(await files.write(bare.handle, 'a/b', Readable.from([Buffer.from('text')]), options)).toMatchObject({ path: '/data/a/b' });
    expect(await bed.output(bare, 'stat -c "%u %a" /data/a /data/a/b')).toBe('12345 755\n12345 644\n');
    const { content } = await files.read(bare.handle, 'a/b', { maxBytes: null, signal: soon() });
    expect(Buffer.concat(await content.toArray()).toString()).toBe('text');
    await expect(files.makeDirectory(bare.handle, '/tmp/x', { parents: true, signal: soon() })).rejects.toMatchObject({
      reason: 'outside_volume',
    });
    await bed.runtime.remove(bare.handle);
  });

  it('are read without the agent’s environment or programs', async () => {
    const hostile = await bed.running({
      command: ['/bin/busybox', 'sleep', '300'],
      environment: { PATH: '/data', ENV: '/data/env', LD_PRELOAD: '/data/lib.so', IFS: '/', CDPATH: '/etc', PWD: '/etc' },
    });
    await bed.output(
      hostile,
      '/bin/busybox mkdir /data/etc; echo "touch /data/taken" > /data/env; cp /data/env /data/stat; chmod 755 /data/stat',
    );
    const { entries } = await bed.runtime.files.list(hostile.handle, '.', soon());
    expect(entries.map(({ name }) => name)).toEqual(['env', 'etc', 'stat']);
    await bed.runtime.remove(hostile.handle);
  });

  it('leave no program behind when the reader goes away in the middle', async () => {
    await bed.output(view, 'dd if=/dev/zero of=/data/endless bs=1M seek=1M count=0');
    const { content } = await bed.runtime.files.read(view.handle, 'endless', { maxBytes: null, signal: soon() });
    await once(content, 'readable');
    expect(await running()).toBeGreaterThan(0);
    content.destroy();
    await until('the programs have ended', async () => ((await running()) === 0 ? true : undefined));
    await bed.output(view, 'rm /data/endless');
  });

  it('are read as a directory by a program in the container: with its own rights, and without a mount on the host', async () => {
    const image = await bed.imageWith(['VOLUME /a/b', 'CMD ["sleep", "300"]']);
    const own = await bed.running({ image });
    await bed.output(own, 'mkdir -p /data/dir; echo mine > /data/dir/mine; echo hidden > /data/dir/hidden; chmod 0 /data/dir/hidden');
    const { Mounts, GraphDriver } = await bed.docker.getContainer(own.handle).inspect();
    const places = [...Mounts.map(({ Name = '' }) => Name), (GraphDriver.Data as unknown as { MergedDir: string }).MergedDir];
    const isOwn = (mount: string) => places.some((place) => mount.includes(place));
    const mounts = async () => (await readFile('/proc/self/mountinfo', 'utf8')).split('\n').filter(isOwn);
    const before = await mounts();
    for (let n = 0; n < 20; n += 1) {
      const { content } = await bed.runtime.files.read(own.handle, 'dir', { maxBytes: null, signal: soon() });
      expect(await namesIn(content)).toContain('dir/mine');
    }
    expect(await mounts()).toEqual(before);
    const other = await bed.running({ agentId: own.agentId, generation: 2, user: '12345' });
    const { content } = await bed.runtime.files.read(other.handle, 'dir', { maxBytes: null, signal: soon() });
    expect(await namesIn(content)).toEqual(['dir/', 'dir/mine']);
    const { content: whole } = await bed.runtime.files.read(own.handle, '/', { maxBytes: null, signal: soon() });
    const names = await namesIn(whole);
    expect(names).toContain('data/dir/mine');
    expect(names.filter((name) => /^(proc|sys|dev)\//.test(name))).toEqual([]);
    for (const { handle } of [own, other]) await bed.runtime.remove(handle);
  });

  it('lose partly written files when the service is killed', async () => {
    const script = `
      const { Readable } = await import('node:stream');
      const { createSecretKey } = await import('node:crypto');
      const { DockerRuntime } = await import(${JSON.stringify(new URL('../docker-runtime.ts', import.meta.url).href)});
      const runtime = new DockerRuntime({
        instance: '${bed.instance}', containerKey: createSecretKey('${bed.instance}', 'utf8'), helperImage: null, ociRuntime: null, egress: 'all',
      });
      const content = new Readable({ read() {} });
      content.push(Buffer.alloc(3 * 1024 * 1024));
      await runtime.files.write(${JSON.stringify(view.handle)}, 'half', content,
        { maxBytes: 1e9, reserve: null, onTaken: 'replace', parents: false, signal: new AbortController().signal });`;
    const loader = new URL('../../../../scripts/typescript.mjs', import.meta.url).href;
    const service = spawn(process.execPath, ['--import', loader, '--input-type=module', '-e', script], { stdio: 'ignore' });
    const kept = () => bed.output(view, 'ls -A /data');
    await until('the file is half written', async () => ((await kept()).includes('.mooring-unfinished-') ? true : undefined));
    service.kill('SIGKILL');
    await once(service, 'exit');
    await until('the file is gone', async () => ((await kept()) === '' ? true : undefined));
    await until('the programs have ended', async () => ((await running()) === 0 ? true : undefined));
  });

  it('are not reachable without the supervisor', async () => {
    const labels = { 'mooring.instance': bed.instance };
    const container = await bed.docker.createContainer({ Image: bed.image, Labels: labels });
    await container.start();
    const listing = bed.runtime.files.list(container.id, '.', soon());
    await expect(listing).rejects.toThrow(RuntimeRefused);
    await expect(listing).rejects.toThrow('has no supervisor');
    await container.remove({ force: true });
  });

  it('are not reachable through a program that an image has in the supervisor’s place', async () => {
    const image = await bed.imageWith(['VOLUME /.mooring', 'CMD ["sleep", "300"]']);
    const container = await bed.docker.createContainer({ Image: image, Labels: { 'mooring.instance': bed.instance } });
    await container.start();
    await expect(bed.runtime.files.list(container.id, '.', soon())).rejects.toThrow('has no supervisor');
    await container.remove({ force: true, v: true });
  });
});

async function namesIn(tar: Readable): Promise<string[]> {
  const names: string[] = [];
  for await (const entry of tar.pipe(extract())) {
    names.push(entry.header.name);
    entry.resume();
  }
  return names.toSorted();
}
