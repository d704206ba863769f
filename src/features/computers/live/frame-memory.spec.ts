import fc from 'fast-check';

import { FrameMemory, type FrameCache } from './frame-memory.ts';

const never = new AbortController().signal;

/** Keeps frames, and says when it forgot them. */
function keeper(accountId: string, forgotten: string[] = [], name = accountId): FrameCache {
  return { accountId, evict: () => forgotten.push(name) };
}

describe('the memory of frames', () => {
  it('evicts the least recently used cache, one of the same account at that account’s limit', async () => {
    const memory = new FrameMemory({ all: 10, account: 6 });
    const forgotten: string[] = [];
    const [first, second] = [keeper('a', forgotten, 'first'), keeper('a', forgotten, 'second')];
    memory.trackCached(keeper('b', forgotten), 3);
    memory.trackCached(first, 3);
    memory.trackCached(second, 3);
    memory.trackCached(first, 3);
    const release = await memory.reserve('a', 2, never);
    expect(forgotten).toEqual(['second']);
    (await memory.reserve('c', 4, never))();
    expect(forgotten).toEqual(['second', 'b']);
    release();
    expect(memory.inUse).toBe(3);
  });

  it('caches nothing while others wait for the memory', async () => {
    const memory = new FrameMemory({ all: 4, account: 4 });
    const release = await memory.reserve('a', 4, never);
    const waiting = memory.reserve('b', 4, never);
    release();
    const forgotten: string[] = [];
    memory.trackCached(keeper('a', forgotten), 4);
    expect(forgotten).toEqual(['a']);
    (await waiting)();
    expect(memory.inUse).toBe(0);
  });

  it('never has more than its limits, and ends empty', async () => {
    const step = fc.record({ account: fc.constantFrom('a', 'b', 'c'), bytes: fc.integer({ min: 0, max: 7 }), isKept: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const memory = new FrameMemory({ all: 10, account: 6 });
        const keepers = new Map<string, FrameCache>();
        const releases: (() => void)[] = [];
        for (const { account, bytes, isKept } of steps) {
          const found = keepers.get(account) ?? keeper(account);
          keepers.set(account, found);
          if (isKept) memory.trackCached(found, bytes);
          else {
            const release = memory.tryReserve(account, bytes);
            if (release !== null) releases.push(release);
          }
          expect(memory.inUse).toBeLessThanOrEqual(10);
          if (releases.length > 2) releases.shift()?.();
        }
        for (const release of releases) release();
        for (const each of keepers.values()) memory.untrack(each);
        expect(memory.inUse).toBe(0);
      }),
    );
  });
});
