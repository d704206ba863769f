import { excessOf } from './build-guard.ts';

describe('a build is ended', () => {
  const at = 1_000_000;

  it('when it and its cache take more than they may, and not before', () => {
    expect(excessOf({ usedKb: 1024 * 1024, measuredAt: at }, 1024, at)).toBeNull();
    expect(excessOf({ usedKb: 1024 * 1024 + 1, measuredAt: at }, 1024, at)).toMatch(/more than 1024 MiB/);
  });

  it('when its size can’t be measured, or is not', () => {
    expect(excessOf({ usedKb: Infinity, measuredAt: at }, 1024, at)).toMatch(/too long to be measured/);
    expect(excessOf({ usedKb: 1, measuredAt: at }, 1024, at + 60_000)).toBeNull();
    expect(excessOf({ usedKb: 1, measuredAt: at }, 1024, at + 100_000)).toMatch(/could not be measured/);
  });

  it('when it leaves no process to watch it', () => {
    expect(excessOf({ usedKb: 1, measuredAt: -Infinity }, 1024, at)).toMatch(/all steps together may have 512/);
  });
});
