import { DockerFixture } from '../../../../test/support/docker-fixture.ts';
import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import type { ContainerView } from '../../container.ts';

const MIB = 1024 * 1024;
const bounds = { withinMs: 60_000, filesMax: 1_000 };

describe('the volumes of agents', () => {
  let bed: DockerFixture;
  let agent: ContainerView;

  beforeAll(async () => {
    bed = await DockerFixture.open();
    agent = await bed.running();
  });
  afterAll(() => bed?.close());

  it('are measured, whoever owns the files, and those that do not exist are left out', async () => {
    const other = await bed.running();
    const lines = [
      'dd if=/dev/zero of=/data/big bs=1M count=5',
      'mkdir /data/closed',
      'dd if=/dev/zero of=/data/closed/more bs=1M count=3',
    ];
    expect(
      await bed.output(agent, [...lines, 'chmod 000 /data/closed /data/big', 'ls / >/dev/null', 'echo written'].join(' && ')),
    ).toContain('written');
    const sizes = await bed.runtime.volumeSizes([agent.agentId, 'no-such-agent', other.agentId], bounds);
    expect([...sizes.keys()]).toEqual([agent.agentId, other.agentId]);
    expect((sizes.get(agent.agentId)?.bytes ?? 0) / MIB).toBeCloseTo(8, 0);
    expect(sizes.get(agent.agentId)?.files).toBe(4);
    expect(sizes.get(other.agentId)?.bytes).toBeLessThan(MIB);
    await bed.runtime.remove(other.handle);
  });

  it('are measured right though names of files look like the measure’s own words', async () => {
    const names = [`$'0\\t/volumes/x'`, `$'a\\n0\\tmooring-${agent.agentId}'`, `$'File name too long'`, `$'mooring-${agent.agentId} 0'`];
    await bed.output(agent, names.map((name) => `mkdir -p /data/${name}`).join('; '));
    const sizes = await bed.runtime.volumeSizes([agent.agentId], bounds);
    expect((sizes.get(agent.agentId)?.bytes ?? 0) / MIB).toBeCloseTo(8, 0);
  });

  it('count as infinitely large if they have paths that no program can read', async () => {
    const chain = Array.from({ length: 15 }, () => 'n'.repeat(200)).join('/');
    // Neither chain is too long; the one inside the other is.
    const lines = [`mkdir -p /data/a/${chain} /data/b/${chain}`, `mv /data/b /data/a/${chain}/`, 'echo made'];
    expect(await bed.output(agent, lines.join(' && '))).toBe('made\n');
    expect((await bed.runtime.volumeSizes([agent.agentId], bounds)).get(agent.agentId)?.bytes).toBe(Infinity);
  });

  it('are measured without leaving a container behind, even when the time runs out', async () => {
    await bed.runtime.volumeSizes([agent.agentId], { ...bounds, withinMs: 0 });
    const filters = JSON.stringify({ label: [`mooring.instance=${bed.instance}`] });
    expect((await bed.docker.listContainers({ all: true, filters })).map(({ Id }) => Id)).toEqual([agent.handle]);
  });

  it('are made although the engine can enforce no quota, and with one where it can', async () => {
    const limited = bed.limited(64 * MIB);
    try {
      const made = await limited.create(bed.spec());
      expect((await limited.inspect(made.agentId)).volume).toBe(true);
      await limited.remove(made.handle);
      await limited.removeVolume(made.agentId);
    } finally {
      await limited.close();
    }
  });

  it('count every file, however small, and end counting beyond the bound', async () => {
    const view = await bed.running();
    const make = 'mkdir /data/many; cd /data/many; i=0; while [ $i -lt 300 ]; do : > $i; i=$((i + 1)); done';
    await bed.output(view, make);
    const measured = async (filesMax: number) => (await bed.runtime.volumeSizes([view.agentId], { ...bounds, filesMax })).get(view.agentId);
    // The root, the folder and its files.
    expect((await measured(302))?.files).toBe(302);
    expect(await measured(301)).toEqual({ bytes: Infinity, files: Infinity });
    const within = (filesMax: number) => bed.runtime.files.measure(view.handle, { ...bounds, filesMax });
    expect((await within(302))?.files).toBe(302);
    expect((await within(301))?.files).toBe(Infinity);
    await bed.runtime.remove(view.handle);
  });
});

describe('the volumes that an image declares', () => {
  let bed: DockerFixture;
  let image: string;

  beforeAll(async () => {
    bed = await DockerFixture.open();
    image = await bed.imageWith(['VOLUME ["/a/b", "/data", "/data/cache"]', 'CMD ["sleep", "300"]']);
  });
  afterAll(() => bed?.close());

  const ownOf = async ({ handle }: ContainerView) =>
    (await bed.docker.getContainer(handle).inspect()).Mounts.flatMap(({ Name = '' }) => (/^[0-9a-f]{64}$/.test(Name) ? [Name] : []));

  it('keep what is in them while the agent sleeps, and end with their container', async () => {
    const view = await bed.running({ image });
    const names = await ownOf(view);
    expect(names).toHaveLength(2);
    await bed.output(view, 'echo kept > /a/b/file');
    await bed.runtime.stop(view.handle, 0);
    await bed.runtime.start(view.handle, {});
    expect(await bed.output(view, 'cat /a/b/file')).toBe('kept\n');
    await bed.runtime.remove(view.handle);
    for (const name of names) await expect(bed.docker.getVolume(name).inspect()).rejects.toMatchObject({ statusCode: 404 });
    const next = await bed.running({ image, agentId: view.agentId, generation: 2 });
    expect(await bed.output(next, 'ls /a/b')).toBe('');
    await bed.runtime.remove(next.handle);
  });

  it('count towards the agent’s size', async () => {
    const view = await bed.running({ image });
    const other = await bed.running({ image });
    await bed.output(view, 'dd if=/dev/zero of=/a/b/big bs=1M count=3; dd if=/dev/zero of=/data/cache/big bs=1M count=2; : > /data/empty');
    const sizes = await bed.runtime.volumeSizes([view.agentId, other.agentId], bounds);
    expect((sizes.get(view.agentId)?.bytes ?? 0) / MIB).toBeCloseTo(5, 0);
    // Three roots, two files of a volume each, and in the agent's own the mount point and the empty file.
    expect(sizes.get(view.agentId)?.files).toBe(7);
    expect(sizes.get(other.agentId)?.bytes).toBeLessThan(MIB);
    // The container itself sees the root of a volume instead of the mount point.
    const within = await bed.runtime.files.measure(view.handle, bounds);
    expect((within?.bytes ?? 0) / MIB).toBeCloseTo(5, 0);
    expect(within?.files).toBe(6);
    for (const { handle } of [view, other]) await bed.runtime.remove(handle);
  });

  it('are named once in the log of a deployment, without the place of the agent’s own volume', async () => {
    const lines: string[] = [];
    const log = (line: string) => void lines.push(line);
    await bed.runtime.ensureImage({ kind: 'reference', reference: image, mayUse: async () => true }, log, timeoutSignal(60_000));
    const told = lines.filter((line) => line.includes('declares'));
    expect(told).toHaveLength(1);
    expect(told[0]).toContain('the volumes /a/b, /data/cache');
    expect(told[0]).toContain('gone after the next deployment');
  });

  it('are limited to 32', async () => {
    const paths = Array.from({ length: 33 }, (_, n) => `/v${n}`);
    const crowded = await bed.imageWith([`VOLUME ${JSON.stringify(paths)}`]);
    await expect(bed.runtime.create(bed.spec({ image: crowded }))).rejects.toThrow('declares 33 volumes');
  });
});
