import fc from 'fast-check';
import type { JsonObject } from './event-definition.ts';
import { DEPTH_MAX, storedJson } from './stored-json.ts';

const anyUnicode = fc.string({ unit: fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)) });

describe('The stored form of a value', () => {
  it('is the same value if it holds neither NUL nor lone surrogates', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue({ stringUnit: 'grapheme', maxDepth: 8 })), (value) => {
        fc.pre(!JSON.stringify(value).includes('\\u0000'));
        expect(storedJson(value as JsonObject)).toBe(JSON.stringify(value));
      }),
    );
  });

  it('never holds NUL or a lone surrogate, keeps every other character, and is stable', () => {
    fc.assert(
      fc.property(anyUnicode, anyUnicode, (name, text) => {
        const json = storedJson({ [name]: [text] });
        const [[storedName, [storedText]]] = Object.entries(JSON.parse(json) as Record<string, [string]>) as [[string, [string]]];
        for (const [before, after] of [
          [name, storedName],
          [text, storedText],
        ] as const) {
          expect(after).not.toMatch(/\0|\p{Surrogate}/u);
          expect(after).toHaveLength(before.length);
          for (const [index, unit] of after.split('').entries()) if (unit !== '\uFFFD') expect(unit).toBe(before[index]);
        }
        expect(storedJson(JSON.parse(json) as JsonObject)).toBe(json);
      }),
    );
  });

  it('leaves text unchanged that only looks like an escape', () => {
    expect(JSON.parse(storedJson({ a: '\\u0000 \\ud800' }))).toEqual({ a: '\\u0000 \\ud800' });
  });

  it('is refused beyond 64 levels, and for values that JSON can not express', () => {
    const nested = (depth: number) => JSON.parse('{"a":'.repeat(depth) + '1' + '}'.repeat(depth)) as JsonObject;
    expect(storedJson(nested(DEPTH_MAX))).toContain('1');
    expect(() => storedJson(nested(DEPTH_MAX + 1))).toThrow(/deeper than 64/);
    expect(() => storedJson(JSON.parse('[['.repeat(10_000) + ']]'.repeat(10_000)))).toThrow(/deeper than 64/);
    const circle: JsonObject = {};
    circle.self = circle;
    expect(() => storedJson(circle)).toThrow(/deeper than 64/);
    for (const value of [NaN, Infinity, 1n, () => 1, Symbol('a'), new Date(0)] as unknown as JsonObject[])
      expect(() => storedJson({ value })).toThrow(TypeError);
    expect(() => storedJson({ list: [undefined] as never })).toThrow(TypeError);
  });
});
