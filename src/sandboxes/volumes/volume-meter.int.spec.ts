import fc from 'fast-check';

import type { Config } from '../../kernel/config/config.ts';
import type { ContainerRuntime } from '../../runtime/runtime.ts';
import { RuntimeRefused } from '../../runtime/runtime.errors.ts';
import type { FollowedKind } from '../reconciliation/container-kind.ts';
import { ContainerKinds } from '../reconciliation/container-kinds.ts';
import { inTurns, VolumeMeter } from './volume-meter.service.ts';

const MIB = 1024 * 1024;
const due = [
  { sandboxId: 'a1', accountId: 'a' },
  { sandboxId: 'a2', accountId: 'a' },
  { sandboxId: 'b1', accountId: 'b' },
];

/** Returns a meter on volumes of these sizes. It remembers which sandboxes were measured, and since when sandboxes were asked for. */
function meterOn(volumeSizes: ContainerRuntime['volumeSizes']) {
  const since: Date[] = [];
  const kinds = new ContainerKinds();
  kinds.register({ kind: 'agent', rows: { thatMayWrite: async (time: Date) => (since.push(time), due) } } as unknown as FollowedKind);
  const meter = new VolumeMeter({ volumeSizes } as ContainerRuntime, kinds, { volumeMaxMb: 10, volumeFilesMax: 100 } as Config);
  return { meter, since };
}

describe('the meter of volumes', () => {
  it('finds volumes above their limit, and reports by how much', async () => {
    const { meter } = meterOn(
      async () =>
        new Map([
          ['a1', { bytes: 10 * MIB, files: 100 }],
          ['a2', { bytes: 10 * MIB + 1, files: 1 }],
          ['b1', { bytes: Infinity, files: 0 }],
        ]),
    );
    const full = await meter.findFull();
    expect([...full.keys()]).toEqual(['a2', 'b1']);
    expect(full.get('a2')).toContain('holds 11 MiB, and 10 MiB is the most');
    expect(full.get('b1')).toContain('too long to be measured');
  });

  it('finds volumes with more files than their limit, however small', async () => {
    const asked: number[] = [];
    const { meter } = meterOn(async (_, { filesMax }) => {
      asked.push(filesMax);
      return new Map([
        ['a1', { bytes: 0, files: 101 }],
        ['b1', { bytes: Infinity, files: Infinity }],
      ]);
    });
    const full = await meter.findFull();
    expect([...full.keys()]).toEqual(['a1', 'b1']);
    for (const reason of full.values()) expect(reason).toContain('more than 100 files');
    expect(asked).toEqual([100]);
  });

  it('measures only volumes that were written since all were measured, and unmeasured ones first', async () => {
    const asked: string[][] = [];
    let measured = ['b1'];
    const { meter, since } = meterOn(async (sandboxIds) => {
      asked.push([...sandboxIds]);
      return new Map(measured.map((sandboxId) => [sandboxId, { bytes: 0, files: 1 }]));
    });
    await meter.findFull();
    await meter.findFull();
    measured = ['a1', 'a2', 'b1'];
    await meter.findFull();
    await meter.findFull();
    expect(asked[0]).toEqual(['a1', 'b1', 'a2']);
    expect(since.slice(0, 3).every((date) => date.getTime() <= 0)).toBe(true);
    expect(since[3]?.getTime()).toBeGreaterThan(0);
  });

  it('finds nothing if volumes can’t be measured', async () => {
    const { meter } = meterOn(async () => {
      throw new RuntimeRefused('there is no helper program');
    });
    expect((await meter.findFull()).size).toBe(0);
  });

  it('gives each account its turn, and measures every sandbox once', () => {
    const sandboxes = fc.uniqueArray(fc.record({ sandboxId: fc.uuid(), accountId: fc.constantFrom('a', 'b', 'c') }), {
      selector: ({ sandboxId }) => sandboxId,
    });
    fc.assert(
      fc.property(sandboxes, fc.array(fc.nat(5)), (all, times) => {
        const measuredAt = new Map(all.map(({ sandboxId }, index) => [sandboxId, times[index] ?? 0]));
        const order = inTurns(all, measuredAt);
        expect([...order].toSorted()).toEqual(all.map(({ sandboxId }) => sandboxId).toSorted());
        const accountOf = new Map(all.map(({ sandboxId, accountId }) => [sandboxId, accountId]));
        const counts = new Map<string | undefined, number>();
        let turn = 0;
        for (const sandboxId of order) {
          const account = accountOf.get(sandboxId);
          const own = counts.get(account) ?? 0;
          // Nobody has a second turn before each other account with sandboxes left had its first.
          expect(own).toBeGreaterThanOrEqual(turn);
          turn = Math.max(turn, own);
          counts.set(account, own + 1);
        }
      }),
    );
  });
});
