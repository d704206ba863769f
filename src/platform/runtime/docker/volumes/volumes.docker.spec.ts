import { DockerBed } from '../../../../../test/support/docker-bed.ts';
import type { ContainerView } from '../../runtime.ts';

const MIB = 1024 * 1024;
const WITHIN_MS = 60_000;

describe('the volumes of agents', () => {
  let bed: DockerBed;
  let agent: ContainerView;

  beforeAll(async () => {
    bed = await DockerBed.open();
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
    const sizes = await bed.runtime.volumeSizes([agent.agentId, 'no-such-agent', other.agentId], WITHIN_MS);
    expect([...sizes.keys()]).toEqual([agent.agentId, other.agentId]);
    expect((sizes.get(agent.agentId) ?? 0) / MIB).toBeCloseTo(8, 0);
    expect(sizes.get(other.agentId)).toBeLessThan(MIB);
    await bed.runtime.remove(other.handle);
  });

  it('are measured right though names of files look like the measure’s own words', async () => {
    const names = [`$'0\\t/volumes/x'`, `$'a\\n0\\tmooring-${agent.agentId}'`, `$'File name too long'`, `$'mooring-${agent.agentId} 0'`];
    await bed.output(agent, names.map((name) => `mkdir -p /data/${name}`).join('; '));
    const sizes = await bed.runtime.volumeSizes([agent.agentId], WITHIN_MS);
    expect((sizes.get(agent.agentId) ?? 0) / MIB).toBeCloseTo(8, 0);
  });

  it('count as full without end if they have paths that no program can follow', async () => {
    const chain = Array.from({ length: 15 }, () => 'n'.repeat(200)).join('/');
    // Neither chain is too long; the one inside the other is.
    const lines = [`mkdir -p /data/a/${chain} /data/b/${chain}`, `mv /data/b /data/a/${chain}/`, 'echo made'];
    expect(await bed.output(agent, lines.join(' && '))).toBe('made\n');
    expect((await bed.runtime.volumeSizes([agent.agentId], WITHIN_MS)).get(agent.agentId)).toBe(Infinity);
  });

  it('leave no container behind, also when the time is too short', async () => {
    await bed.runtime.volumeSizes([agent.agentId], 0);
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
});
