import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { HostLimits, readOfEngine } from './host-limits.ts';

describe('the limits of the host’s kernel that agents share', () => {
  const limitsOf = (values: Record<string, string>) => {
    const onLow = jest.fn();
    const read = jest.fn(async (file: string) => values[file] ?? null);
    return { onLow, read, limits: new HostLimits(read, onLow) };
  };
  const neighbours = '/proc/sys/net/ipv4/neigh/default/gc_thresh3';
  const terminals = '/proc/sys/kernel/pty/max';

  it('are named if one agent could take them all, once until they change', async () => {
    const values: Record<string, string> = { [neighbours]: '1024\n', [terminals]: '4096\n' };
    const { limits, onLow, read } = limitsOf(values);
    await limits.refresh(0);
    await limits.refresh(1_000);
    expect(read).toHaveBeenCalledTimes(2);
    expect(limits.warning).toContain('(net.ipv4.neigh.default.gc_thresh3, kernel.pty.max)');
    values[neighbours] = '65536\n';
    await limits.refresh(3_600_000);
    await limits.refresh(7_200_000);
    expect(onLow.mock.calls).toEqual([[['net.ipv4.neigh.default.gc_thresh3', 'kernel.pty.max']], [['kernel.pty.max']]]);
  });

  it('are not complained of where they are high, or not known', async () => {
    const known: Record<string, string>[] = [{ [neighbours]: '16384\n', [terminals]: '1048576\n' }, {}, { [neighbours]: 'x' }];
    for (const values of known) {
      const { limits, onLow } = limitsOf(values);
      await limits.refresh();
      expect([limits.warning, onLow.mock.calls]).toEqual([null, []]);
    }
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

    it('nowhere if the engine can’t, so that nothing is said of them', async () => {
      expect(await readOfEngine(file, [elsewhere], () => Promise.reject(new Error('there is no cat')))).toBe(null);
    });
  });
});
