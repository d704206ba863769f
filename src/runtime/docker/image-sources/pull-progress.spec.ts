import { type Progress, PullProgress } from './pull-progress.ts';

let log: string[];
let now: number;
let progress: PullProgress;

beforeEach(() => {
  log = [];
  now = 0;
  progress = new PullProgress(
    (line) => log.push(line),
    () => now,
  );
});

const downloading = (id: string, current: number, total: number) =>
  progress.apply({ status: 'Downloading', id, progressDetail: { current, total } });

describe('the build log of a pull', () => {
  it('shows how much is downloaded, and how many layers are complete', () => {
    progress.apply({ status: 'Pulling from team/agent', id: 'v1' });
    for (const id of ['a', 'b', 'c']) progress.apply({ status: 'Pulling fs layer', id, progressDetail: {} });
    progress.apply({ status: 'Already exists', id: 'c' });
    now = 1_000;
    downloading('a', 2_000_000, 8_000_000);
    now = 2_000;
    downloading('b', 500_000, 4_000_000);
    now = 3_000;
    progress.apply({ status: 'Pull complete', id: 'a' });
    progress.apply({ status: 'Download complete', id: 'b' });
    progress.apply({ status: 'Pull complete', id: 'b' });
    progress.end();
    progress.apply({ status: 'Status: Downloaded newer image for team/agent:v1' });
    expect(log).toEqual([
      'Pulling from team/agent',
      '0 of 2 layers pulled, 2.0 MB of at least 8.0 MB downloaded, 1 more layers were there already',
      '0 of 2 layers pulled, 2.5 MB of 12.0 MB downloaded, 1 more layers were there already',
      '1 of 2 layers pulled, 8.5 MB of 12.0 MB downloaded, 1 more layers were there already',
      '2 of 2 layers pulled, 12.0 MB of 12.0 MB downloaded, 1 more layers were there already',
      'Status: Downloaded newer image for team/agent:v1',
    ]);
  });

  it('has at most one line each second, and few lines even if the pull lasts an hour', () => {
    const times: number[] = [];
    for (; now < 3_600_000; now += 100) {
      const before = log.length;
      downloading('a', now * 1_000, 1e12);
      if (log.length > before) times.push(now);
    }
    expect(times.slice(1).every((time, index) => time - (times[index] ?? 0) >= 1_000)).toBe(true);
    expect(log.length).toBeGreaterThan(20);
    expect(log.length).toBeLessThan(100);
  });

  it('has no line that repeats the previous one', () => {
    downloading('a', 1, 2);
    for (; now < 60_000; now += 500) progress.apply({ status: 'Extracting', id: 'a', progressDetail: { current: now, total: 2 } });
    expect(new Set(log).size).toBe(log.length);
  });

  it('does not grow with the layers that a registry names', () => {
    for (let layer = 0; layer < 50_000; layer++) progress.apply({ status: 'Pulling fs layer', id: `layer ${layer}` });
    progress.end();
    expect(log).toEqual([expect.stringContaining('of 256 layers')]);
  });
});

describe('a step of a pull', () => {
  it('is progress if it has new information', () => {
    const steps: [Progress, boolean][] = [
      [{ status: 'Pulling from team/agent', id: 'v1' }, true],
      [{ status: 'Pulling fs layer', id: 'a', progressDetail: {} }, true],
      [{ status: 'Downloading', id: 'a', progressDetail: { current: 1, total: 9 } }, true],
      [{ status: 'Downloading', id: 'a', progressDetail: { current: 1, total: 9 } }, false],
      [{ status: 'Downloading', id: 'b', progressDetail: { current: 1, total: 9 } }, true],
      [{ status: 'Downloading', id: 'a', progressDetail: { current: 2, total: 9 } }, true],
      [{ status: 'Extracting', id: 'a', progressDetail: { current: 2, total: 9 } }, true],
      [{}, false],
    ];
    expect(steps.map(([step]) => progress.apply(step))).toEqual(steps.map(([, isProgress]) => isProgress));
  });
});
