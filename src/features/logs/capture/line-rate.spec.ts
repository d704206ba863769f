import fc from 'fast-check';

import { LineRate, LINES_AT_ONCE, LINES_PER_SECOND } from './line-rate.ts';

const START = Date.parse('2026-01-01T00:00:00Z');
const at = (ms: number, text = 'a line') => ({
  stream: 'stdout' as const,
  text,
  cursor: { generation: 1, time: new Date(START + ms).toISOString(), count: 1 },
});
const kept = (lines: ReturnType<typeof at>[]) => {
  const rate = new LineRate();
  return lines.filter((line) => !rate.exceeds(line)).length;
};

describe('the captured output of an agent', () => {
  it('is complete if it is printed steadily, however late it is read', () => {
    expect(kept(Array.from({ length: 100_000 }, (_, n) => at((n / LINES_PER_SECOND) * 1_000)))).toBe(100_000);
  });

  it('is a burst, and then the allowance of each second, if it is printed without end', () => {
    const seconds = 10;
    const flood = Array.from({ length: 200_000 }, (_, n) => at((n / 200_000) * seconds * 1_000));
    const found = kept(flood);
    expect(found).toBeGreaterThanOrEqual(LINES_AT_ONCE);
    expect(found).toBeLessThanOrEqual(LINES_AT_ONCE + seconds * LINES_PER_SECOND);
  });

  it('is less if the lines are long', () => {
    const long = Array.from({ length: LINES_AT_ONCE }, () => at(0, 'x'.repeat(16_384)));
    expect(kept(long)).toBeLessThan(LINES_AT_ONCE / 60);
  });

  it('never exceeds that, whatever the times are', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 5_000 }), { minLength: 1, maxLength: 50 }), (gaps) => {
        let ms = 0;
        const lines = gaps.flatMap((gap) => ((ms += gap), Array.from({ length: 2_000 }, () => at(ms))));
        expect(kept(lines)).toBeLessThanOrEqual(LINES_AT_ONCE + (ms / 1_000) * LINES_PER_SECOND);
      }),
      { numRuns: 30 },
    );
  });
});
