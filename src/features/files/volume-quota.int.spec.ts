import type { Config } from '../../kernel/config/config.ts';
import type { VolumeSize } from '../../runtime/files.ts';
import type { ContainerRuntime } from '../../runtime/runtime.ts';
import { RuntimeRefused, RuntimeUnavailable } from '../../runtime/runtime.errors.ts';
import { VolumeQuota } from './volume-quota.service.ts';

const MIB = 1_048_576;

/** The room in volumes of 100 MiB, of which 1 MiB may be written unmeasured. Each measurement ends when the test answers it. */
function roomOf({ volumeMaxMb = 100 } = {}) {
  const asked: { answer: (size: VolumeSize | null) => void; fail: (error: Error) => void }[] = [];
  const measure = () => new Promise<VolumeSize | null>((answer, fail) => asked.push({ answer, fail }));
  const room = new VolumeQuota({ files: { measure } } as unknown as ContainerRuntime, { volumeMaxMb, volumeFilesMax: 1_000 } as Config);
  const write = (bytes: number, outcome: 'stored' | 'failed' = 'stored') =>
    room.whileWriting('a1', 'handle', async (reserve) => {
      if (reserve !== null && !(await reserve(bytes))) throw new Error('there is no room');
      if (outcome === 'failed') throw new Error('it broke off');
    });
  return { asked, write };
}

const size = (mebibytes: number, files = 1): VolumeSize => ({ bytes: mebibytes * MIB, files });

describe('the quota of a volume', () => {
  it('does not delay the first small write, and measures meanwhile', async () => {
    const { asked, write } = roomOf();
    await write(1_000);
    expect(asked).toHaveLength(1);
  });

  it('delays a large write until the volume is measured', async () => {
    const { asked, write } = roomOf();
    const [fitting, tooLarge] = [write(30 * MIB), write(30 * MIB)];
    asked[0]?.answer(size(50));
    await fitting;
    await expect(tooLarge).rejects.toThrow('no room');
    expect(asked).toHaveLength(1);
  });

  it('gives many concurrent small writes no more than one', async () => {
    const { asked, write } = roomOf();
    const all = Array.from({ length: 40 }, () => write(100_000));
    // Ten of them wait for nothing.
    await Promise.all(all.slice(0, 10));
    asked[0]?.answer(size(98));
    const rest = await Promise.allSettled(all.slice(10));
    // The measurement may not have seen the ten, which took 1 MB of the last 2 MiB.
    expect(rest.filter(({ status }) => status === 'fulfilled')).toHaveLength(10);
  });

  it('refuses the next write once a small one has found the volume full', async () => {
    const { asked, write } = roomOf();
    await write(1_000);
    asked[0]?.answer(size(100));
    await expect(write(2 * MIB)).rejects.toThrow('no room');
    await expect(write(1)).rejects.toThrow('no room');
  });

  it('is used up in a volume with too many files', async () => {
    const { asked, write } = roomOf();
    const writing = write(2 * MIB);
    asked[0]?.answer({ bytes: 0, files: 1_001 });
    await expect(writing).rejects.toThrow('no room');
  });

  it('releases the reservation of a failed write', async () => {
    const { asked, write } = roomOf();
    await expect(write(MIB, 'failed')).rejects.toThrow('broke off');
    await write(MIB);
    asked[0]?.answer(size(50));
  });

  it.each([
    ['takes too long to be measured', (one: ReturnType<typeof roomOf>['asked'][number]) => one.answer(null)],
    ['can’t be measured', (one: ReturnType<typeof roomOf>['asked'][number]) => one.fail(new RuntimeRefused('no supervisor'))],
  ])('leaves a volume that %s to the meter', async (_, end) => {
    const { asked, write } = roomOf();
    const writing = write(200 * MIB);
    if (asked[0] !== undefined) end(asked[0]);
    await writing;
    await write(200 * MIB);
    expect(asked).toHaveLength(1);
  });

  it('passes the error of a measurement to the writes that wait for it, and measures again for the next one', async () => {
    const { asked, write } = roomOf();
    const [small, large] = [write(1), write(2 * MIB)];
    asked[0]?.fail(new RuntimeUnavailable(new Error('silence')));
    await small;
    await expect(large).rejects.toThrow(RuntimeUnavailable);
    const next = write(2 * MIB);
    asked[1]?.answer(size(1));
    await next;
  });

  it('measures nothing where there is no bound', async () => {
    const { asked, write } = roomOf({ volumeMaxMb: 0 });
    await write(1_000 * MIB);
    expect(asked).toHaveLength(0);
  });
});
