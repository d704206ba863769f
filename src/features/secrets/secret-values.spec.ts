import fc from 'fast-check';

import { maskOf, secretNameProblem, valueProblem } from './secret-values.rules.ts';

describe('the name of a secret', () => {
  it.each(['a', '0', 'openai', 'open-ai_2', `a${'b'.repeat(62)}`])('may be %s', (name) => expect(secretNameProblem(name)).toBeNull());
  it.each(['', '-a', '_a', 'A', 'a.b', 'a/b', 'a b', 'é', 'a\n', '__proto__', `a${'b'.repeat(63)}`])('may not be %j', (name) =>
    expect(secretNameProblem(name)).not.toBeNull(),
  );

  it('has only characters that need no escape in an address', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 80 }), (name) => {
        if (secretNameProblem(name) === null) expect(encodeURIComponent(name)).toBe(name);
      }),
    );
  });
});

describe('a value', () => {
  it('is bounded in bytes', () => {
    expect([valueProblem('x'.repeat(32_768)), valueProblem('é'.repeat(16_384)), valueProblem('')]).toEqual([null, null, null]);
    for (const bad of ['x'.repeat(32_769), 'é'.repeat(16_385), 'a\0b', 'a\ud800b']) expect(valueProblem(bad)).not.toBeNull();
  });

  it('has a mask that hides a short value entirely, and never reveals the length', () => {
    expect([maskOf(''), maskOf('elevenchars'), maskOf('twelve-chars'), maskOf('x'.repeat(500))]).toEqual([
      '••••••••',
      '••••••••',
      'twel••••••••',
      'xxxx••••••••',
    ]);
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', minLength: 12, maxLength: 60 }), (value) => {
        expect(maskOf(value)).toBe(`${Array.from(value).slice(0, 4).join('')}••••••••`);
      }),
    );
  });
});
