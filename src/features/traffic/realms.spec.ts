import fc from 'fast-check';

import { ownRealms } from './realms.ts';

const owner = '/a/one';

describe('a challenge of an agent under a path', () => {
  it.each([
    ['Basic realm="admin"', 'Basic realm="/a/one admin"'],
    ['Basic realm="a \\"b\\"", charset="UTF-8"', 'Basic realm="/a/one a \\"b\\"", charset="UTF-8"'],
    ['basic REALM = admin', 'basic REALM = "/a/one admin"'],
    ['Digest nonce="x", realm="y"', 'Digest realm="/a/one" nonce="x", realm="/a/one y"'],
    ['Basic', 'Basic realm="/a/one"'],
    ['Bearer, Basic', 'Bearer, Basic realm="/a/one"'],
    ['Basic realm="basic realm"', 'Basic realm="/a/one basic realm"'],
    ['Bearer error="invalid_token"', 'Bearer error="invalid_token"'],
  ])('has a realm of its own: %s', (given, expected) => {
    expect(ownRealms(given, owner)).toBe(expected);
  });

  it.each(['Basic realm="x', 'Basic "realm="x"', 'Basic realm="x" y', '=', ''])('is removed if it is invalid: %s', (given) => {
    expect(ownRealms(given, owner)).toBeNull();
  });

  it('has no realm that another agent has, whatever it sends', () => {
    const word = fc.constantFrom(
      'Basic',
      'Digest',
      'realm',
      '=',
      '"',
      '\\',
      ',',
      ' ',
      'x',
      'realm=x',
      'realm="x"',
      'charset="UTF-8"',
      "realm='x'",
    );
    fc.assert(
      fc.property(fc.array(word, { maxLength: 12 }), (words) => {
        const realms = [...(ownRealms(words.join(''), owner) ?? '').matchAll(/\brealm\s*=\s*("(?:[^"\\]|\\.)*"|[^\s,]+)/gi)].map(
          ([, value = '']) => value,
        );
        for (const value of realms) expect(value.replace(/^"/, '')).toMatch(/^\/a\/one/);
      }),
    );
  });
});
