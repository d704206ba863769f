import fc from 'fast-check';

import { fitToBytes, jsonBytes } from './fitting.ts';

describe('a value that is too large for a result', () => {
  it('is shortened if it is too large, and otherwise unchanged', () => {
    fc.assert(
      fc.property(
        fc.jsonValue({ maxDepth: 4 }),
        fc.integer({ min: 10, max: 300 }),
        fc.constantFrom('first' as const, 'last' as const),
        (value, max, keeps) => {
          const shown = fitToBytes(value, max, keeps);
          expect(jsonBytes(shown)).toBeLessThanOrEqual(max);
          if (jsonBytes(value) <= max) expect(shown).toBe(value);
        },
      ),
      { numRuns: 1_000 },
    );
  });

  it('keeps the first items of a list, or the last ones', () => {
    const list = Array.from({ length: 100 }, (_, id) => ({ id }));
    expect(fitToBytes(list, 50)).toEqual([{ id: 0 }, { id: 1 }, { id: 2 }, { id: 3 }, { id: 4 }]);
    expect(fitToBytes(list, 50, 'last')).toEqual([{ id: 96 }, { id: 97 }, { id: 98 }, { id: 99 }]);
    expect(fitToBytes([{ text: 'x'.repeat(1_000) }], 120)).toMatchObject([{ text: expect.stringContaining('left out') }]);
  });

  it('keeps short members whole, and of a long text more of its end than of its beginning', () => {
    const { exitCode, stdout } = fitToBytes({ exitCode: 3, stdout: `begin${'x'.repeat(5_000)}end` }, 400) as {
      exitCode: number;
      stdout: string;
    };
    expect(exitCode).toBe(3);
    expect(stdout).toMatch(/^beginx+\[… \d+ characters are left out …\]x+end$/);
    expect(stdout.indexOf('[')).toBeLessThan(stdout.length / 3);
  });
});
