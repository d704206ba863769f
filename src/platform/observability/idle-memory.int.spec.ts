import { IdleMemory } from './idle-memory.ts';

const MIB = 1024 * 1024;

/** Returns how often memory is released at these looks, each the share of its time that the event loop worked. */
function releasesAt(shares: number[], heap = 10_000 * MIB): number {
  const memory = new IdleMemory();
  let releases = 0;
  for (const share of shares) memory.look(share, heap, () => void (releases += 1));
  return releases;
}

describe('the memory of an idle process', () => {
  it('is released once nothing was to do for two looks', () => {
    expect(releasesAt([0.9, 0.01])).toBe(0);
    expect(releasesAt([0.9, 0.01, 0.02])).toBe(1);
  });

  it('is not released while there is work', () => {
    expect(releasesAt([0.9, 0.01, 0.5, 0.02, 0.6, 0.01])).toBe(0);
  });

  it('is released again only after it has grown, and after five minutes', () => {
    const memory = new IdleMemory();
    const look = (heap: number) => memory.look(0, heap, () => undefined);
    expect([look(10_000 * MIB), look(10_000 * MIB)]).toEqual([false, true]);
    for (let seconds = 10; seconds < 300; seconds += 10) expect(look(10_000 * MIB)).toBe(false);
    expect([look(40 * MIB), look(40 * MIB), look(10_000 * MIB)]).toEqual([false, false, true]);
  });

  it('is smaller after it was released', () => {
    let garbage: object[] | null = Array.from({ length: 400_000 }, (_, n) => ({ n, text: `text ${n}` }));
    const before = process.memoryUsage().heapUsed;
    expect(garbage).toHaveLength(400_000);
    garbage = null;
    const memory = new IdleMemory();
    expect([memory.look(0, 10_000 * MIB), memory.look(0, 10_000 * MIB)]).toEqual([false, true]);
    expect(process.memoryUsage().heapUsed).toBeLessThan(before);
  });
});
