import { KeyCache, type SubjectKeys } from './key-cache.ts';

const START = 1_000_000;

describe('data keys that are remembered', () => {
  let now: jest.SpiedFunction<typeof performance.now>;
  let cache: KeyCache;
  const log = { currentAt: -Infinity };
  const keys = Promise.resolve<SubjectKeys>({ byVersion: new Map(), shredded: false });
  const after = (ms: number) => now.mockReturnValue(START + ms);

  beforeEach(() => {
    now = jest.spyOn(performance, 'now').mockReturnValue(START);
    log.currentAt = -Infinity;
    cache = new KeyCache();
  });
  afterEach(() => now.mockRestore());

  it('are used for a second', () => {
    void cache.remember('a', keys);
    after(999);
    expect([cache.find('a', false), cache.find('a', true), cache.find('b', true)]).toEqual([keys, keys, undefined]);
    after(1_000);
    expect([cache.find('a', false), cache.find('a', true)]).toEqual([undefined, undefined]);
  });

  it('are used for longer if the log tells the end of the subject, while all of the log was heard within the last second', () => {
    cache.follow(log);
    void cache.remember('a', keys);
    after(60_000);
    log.currentAt = START + 59_001;
    expect([cache.find('a', false), cache.find('a', true)]).toEqual([undefined, keys]);
    after(60_001);
    expect(cache.find('a', true)).toBeUndefined();
    log.currentAt = START + 60_001;
    expect(cache.find('a', true)).toBe(keys);
  });

  it('are used no longer once the subject ends, and every second from then on, whatever else was heard', () => {
    const ends = cache.follow(log);
    for (const subject of ['a', 'b']) void cache.remember(subject, keys);
    ends.onEnd('a');
    log.currentAt = START;
    expect([cache.find('a', true), cache.find('b', true)]).toEqual([undefined, keys]);
    void cache.remember('a', keys);
    expect(cache.find('a', true)).toBe(keys);
    after(1_000);
    log.currentAt = START + 1_000;
    expect([cache.find('a', true), cache.find('b', true)]).toEqual([undefined, keys]);
  });

  it('are all read again after the ends of subjects may have been missed', () => {
    const ends = cache.follow(log);
    void cache.remember('a', keys);
    ends.onGap();
    expect(cache.find('a', true)).toBeUndefined();
  });

  it('are read again after they could not be read', async () => {
    await expect(cache.remember('a', Promise.reject(new Error('away')))).rejects.toThrow('away');
    expect(cache.find('a', false)).toBeUndefined();
  });

  it('are those of the subjects that were used last', () => {
    for (let n = 0; n < 5_000; n += 1) void cache.remember(`s${n}`, keys);
    expect(cache.find('s0', false)).toBe(keys);
    void cache.remember('one more', keys);
    expect([cache.find('s0', false), cache.find('s1', false)]).toEqual([keys, undefined]);
  });
});
