import { excessOf } from './build-guard.ts';

describe('a build is aborted', () => {
  const at = 1_000_000;
  const sound = { usedKb: 1, hasTooManyFiles: false, disk: { freeKb: Infinity, sizeKb: Infinity }, measuredAt: at };

  it('when it and its cache exceed their limit, and not before', () => {
    expect(excessOf({ ...sound, usedKb: 1024 * 1024, measuredAt: at }, 1024, at)).toBeNull();
    expect(excessOf({ ...sound, usedKb: 1024 * 1024 + 1, measuredAt: at }, 1024, at)).toMatch(/more than 1024 MiB/);
  });

  it('when its size can’t be measured, or has never been measured', () => {
    expect(excessOf({ ...sound, usedKb: Infinity, measuredAt: at }, 1024, at)).toMatch(/too long to be measured/);
    expect(excessOf({ ...sound, usedKb: 1, measuredAt: at }, 1024, at + 60_000)).toBeNull();
    expect(excessOf({ ...sound, usedKb: 1, measuredAt: at }, 1024, at + 100_000)).toMatch(/could not be measured/);
  });

  it('when it creates very many files, or leaves hardly any disk space', () => {
    expect(excessOf({ ...sound, usedKb: Infinity, hasTooManyFiles: true }, 1024, at)).toMatch(/more than 131072 files/);
    const disk = (freeGb: number, sizeGb: number) => ({ ...sound, disk: { freeKb: freeGb * 1024 ** 2, sizeKb: sizeGb * 1024 ** 2 } });
    expect(excessOf(disk(3.9, 1_000), 1024, at)).toMatch(/nearly full/);
    expect(excessOf(disk(4.1, 1_000), 1024, at)).toBeNull();
    expect(excessOf(disk(0.9, 20), 1024, at)).toMatch(/nearly full/);
    expect(excessOf(disk(1.1, 20), 1024, at)).toBeNull();
  });

  it('when it leaves no process for the check', () => {
    expect(excessOf({ ...sound, usedKb: 1, measuredAt: -Infinity }, 1024, at)).toMatch(/all steps together may have 512/);
  });
});
