import { createSecretKey } from 'node:crypto';

import fc from 'fast-check';

import { readToken, signToken } from './viewer-token.ts';

const key = createSecretKey(Buffer.alloc(32, 7));
const link = {
  sessionId: '01890a5d-ac96-774b-bcce-b302099a8057',
  computerId: '01890a5d-ac96-774b-bcce-b302099a8058',
  mode: 'view' as const,
  expiresAt: 1_790_000_000_000,
};
const token = signToken(link, key);

describe('the token of a link', () => {
  it('contains its facts, which anybody can read', () => {
    expect(readToken(token, key)).toEqual(link);
    expect(JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString())).toEqual({
      session_id: link.sessionId,
      computer_id: link.computerId,
      mode: 'view',
      exp: 1_790_000_000,
    });
  });

  it('is none with any character changed, left out or added', () => {
    const anyCharacter = fc.constantFrom(...'ABCxyz019-_.=+/ %'.split(''));
    fc.assert(
      fc.property(fc.nat(token.length), anyCharacter, fc.constantFrom(0, 1), (at, character, removed) => {
        const other = token.slice(0, at) + character + token.slice(at + removed);
        fc.pre(other !== token);
        expect(readToken(other, key)).toBeNull();
      }),
      { numRuns: 2_000 },
    );
    for (let end = 0; end < token.length; end += 1) expect(readToken(token.slice(0, end), key)).toBeNull();
  });

  it('is invalid at another installation', () => {
    expect(readToken(token, createSecretKey(Buffer.alloc(32, 8)))).toBeNull();
  });

  it('can not be given another mode', () => {
    const [facts = '', code] = token.split('.');
    const control = Buffer.from(Buffer.from(facts, 'base64url').toString().replace('view', 'control')).toString('base64url');
    expect(readToken(`${control}.${code}`, key)).toBeNull();
  });
});
