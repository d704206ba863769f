import { pauseAfter } from './resync-pause.ts';

describe('the pause after a resync', () => {
  it('is half a minute after a quick resync', () => {
    expect([0, 10, 125].map(pauseAfter)).toEqual([30_000, 30_000, 30_000]);
  });

  it('is long enough that resyncs of many agents take a small part of the time', () => {
    expect([250, 1_000].map(pauseAfter)).toEqual([60_000, 240_000]);
  });

  it('is five minutes at most', () => {
    expect([5_000, 60_000, Infinity].map(pauseAfter)).toEqual([300_000, 300_000, 300_000]);
  });
});
