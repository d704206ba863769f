import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { HostLimits, readOfEngine } from './host-limits.ts';

describe('the limits of the host’s kernel that agents share', () => {
  const limitsOf = (values: Record<string, string>) => {
    const onChange = jest.fn();
    const read = jest.fn(async (file: string) => values[file] ?? null);
    return { onChange, read, limits: new HostLimits(read, onChange) };
  };
  const neighbours = '/proc/sys/net/ipv4/neigh/default/gc_thresh3';
  const terminals = '/proc/sys/kernel/pty/max';
  const namespaces = '/proc/sys/user/max_user_namespaces';
  const warningWith = async (values: Record<string, string>) => {
    const { limits } = limitsOf(values);
    await limits.refresh();
    return limits.warning;
  };

  it('are reported if one agent could use them up, once until they change', async () => {
    const values: Record<string, string> = { [neighbours]: '1024\n', [terminals]: '4096\n' };
    const { limits, onChange, read } = limitsOf(values);
    await limits.refresh(0);
    await limits.refresh(1_000);
    expect(read.mock.calls.filter(([file]) => file === neighbours)).toHaveLength(1);
    expect(limits.warning).toContain('(net.ipv4.neigh.default.gc_thresh3, kernel.pty.max)');
    values[neighbours] = '65536\n';
    await limits.refresh(3_600_000);
    await limits.refresh(7_200_000);
    values[terminals] = '65536\n';
    await limits.refresh(9_900_000);
    expect(onChange.mock.calls).toEqual([
      [expect.stringContaining('(net.ipv4.neigh.default.gc_thresh3, kernel.pty.max): raise them')],
      [expect.stringContaining('(kernel.pty.max): raise them')],
      [null],
    ]);
  });

  it('are not reported if they are high, or unknown', async () => {
    const known: Record<string, string>[] = [
      { [neighbours]: '16384\n', [terminals]: '1048576\n', [namespaces]: '4096\n' },
      { '/proc/sys/kernel/unprivileged_userns_clone': '1\n', '/proc/sys/kernel/apparmor_restrict_unprivileged_userns': '0\n' },
      {},
      { [neighbours]: 'x' },
    ];
    for (const values of known) {
      const { limits, onChange } = limitsOf(values);
      await limits.refresh();
      expect([limits.warning, onChange.mock.calls]).toEqual([null, []]);
    }
  });

  it('are reported if a computer could fill the kernel’s memory with user namespaces', async () => {
    expect(await warningWith({ [namespaces]: '16384\n' })).toBe(null);
    expect(await warningWith({ [namespaces]: '16385\n' })).toMatch(/kernel’s memory .* \(user\.max_user_namespaces\): lower it/);
  });

  it('are reported if they keep browsers from their sandbox', async () => {
    const userns = ['unprivileged_userns_clone', 'apparmor_restrict_unprivileged_userns'].map((name) => `/proc/sys/kernel/${name}`);
    const all = await warningWith({ [terminals]: '1\n', [namespaces]: '0\n', [`${userns[0]}`]: '0\n', [`${userns[1]}`]: '1\n' });
    expect(all).toMatch(/\(kernel\.pty\.max\): raise them; browsers .* without their sandbox/);
    expect(all).toContain('(user.max_user_namespaces, kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)');
  });

  describe('are read', () => {
    const folder = mkdtempSync(join(tmpdir(), 'mooring-limits-'));
    const file = join(folder, 'max');
    /** A device that every Linux has stands for a bridge of an engine on this machine. */
    const [here, elsewhere] = ['lo', 'br-0123456789ab'];
    const there = () => Promise.resolve('there\n');

    beforeAll(() => writeFileSync(file, 'here\n'));
    afterAll(() => rmSync(folder, { recursive: true }));

    it('on this machine where a bridge of the engine is', async () => {
      expect(await readOfEngine(file, [elsewhere, here], there)).toBe('here\n');
    });

    it('by the engine where it has its bridges elsewhere, as in a virtual machine behind a socket file', async () => {
      expect(await readOfEngine(file, [elsewhere], there)).toBe('there\n');
    });

    it('by the engine where the service is in a container, which lacks the file', async () => {
      expect(await readOfEngine(join(folder, 'none'), [here], there)).toBe('there\n');
    });

    it('nowhere if the engine can’t, so that nothing is reported', async () => {
      expect(await readOfEngine(file, [elsewhere], () => Promise.reject(new Error('there is no cat')))).toBe(null);
    });
  });
});
