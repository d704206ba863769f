import fc from 'fast-check';

import { base62 } from '../../crypto/base62.ts';
import { apiKeyDecider } from './api-keys.decider.ts';
import type { ApiKeyEvent } from './api-keys.events.ts';
import { isWellFormed, newRawKey, prefixOf } from './raw-key.ts';

const now = new Date('2026-01-01T00:00:00Z');
const issue = {
  type: 'IssueApiKey' as const,
  accountId: 'acme',
  keyId: 'k',
  name: 'ci',
  prefix: 'mk_12345678',
  sha256: 'ab',
  scopes: ['deploy' as const],
};
const issued: ApiKeyEvent = {
  type: 'ApiKeyIssued',
  data: { account_id: 'acme', key_id: 'k', name: 'ci', prefix: 'mk_12345678', sha256: 'ab', scopes: ['deploy'], expires_at: null },
};
const revoked: ApiKeyEvent = { type: 'ApiKeyRevoked', data: { account_id: 'acme', key_id: 'k' } };
const after = (...events: ApiKeyEvent[]) => events.reduce(apiKeyDecider.evolve, apiKeyDecider.initialState());

describe('an API key', () => {
  it('is issued once, and ends after its days', () => {
    expect(apiKeyDecider.decide({ ...issue, expiresInDays: null }, null, now)).toEqual([issued]);
    const [event] = apiKeyDecider.decide({ ...issue, expiresInDays: 30 }, null, now);
    expect(event?.data).toMatchObject({ expires_at: '2026-01-31T00:00:00.000Z' });
    expect(() => apiKeyDecider.decide({ ...issue, expiresInDays: null }, after(issued), now)).toThrow('issued already');
  });

  it('is revoked only by its own account, and only once', () => {
    expect(apiKeyDecider.decide({ type: 'RevokeApiKey', accountId: 'acme' }, after(issued), now)).toEqual([revoked]);
    expect(apiKeyDecider.decide({ type: 'RevokeApiKey', accountId: 'acme' }, after(issued, revoked), now)).toEqual([]);
    for (const state of [after(issued), null])
      expect(() => apiKeyDecider.decide({ type: 'RevokeApiKey', accountId: 'other' }, state, now)).toThrow('no such API key');
  });
});

describe('the expiry of an API key', () => {
  const ending = { ...issued, data: { ...issued.data, expires_at: '2025-12-31T00:00:00.000Z' } } as ApiKeyEvent;
  const expired: ApiKeyEvent = { type: 'ApiKeyExpired', data: { account_id: 'acme', key_id: 'k' } };

  it('is recorded once, and not before its time', () => {
    expect(apiKeyDecider.decide({ type: 'RecordExpiry' }, after(ending), now)).toEqual([expired]);
    expect(apiKeyDecider.decide({ type: 'RecordExpiry' }, after(ending), new Date('2025-12-30T23:59:59Z'))).toEqual([]);
    expect(apiKeyDecider.decide({ type: 'RecordExpiry' }, after(ending, expired), now)).toEqual([]);
  });

  it('is not recorded for a key that never expires or was revoked before', () => {
    for (const state of [after(issued), after(ending, revoked), null])
      expect(apiKeyDecider.decide({ type: 'RecordExpiry' }, state, now)).toEqual([]);
  });
});

describe('a raw key', () => {
  it('has a fixed form that secret scanners can find', () => {
    for (let count = 0; count < 200; count += 1) {
      const key = newRawKey();
      expect(key).toMatch(/^mk_[0-9A-Za-z]{49}$/);
      expect(isWellFormed(key)).toBe(true);
      expect(prefixOf(key)).toBe(key.slice(0, 11));
    }
  });

  it('with any one character changed, or two neighbours swapped, is not well-formed', () => {
    const key = newRawKey();
    const digit = fc.stringMatching(/^[0-9A-Za-z]$/);
    fc.assert(
      fc.property(fc.integer({ min: 3, max: key.length - 1 }), digit, (at, other) => {
        fc.pre(key[at] !== other);
        expect(isWellFormed(`${key.slice(0, at)}${other}${key.slice(at + 1)}`)).toBe(false);
      }),
    );
    fc.assert(
      fc.property(fc.integer({ min: 3, max: key.length - 2 }), (at) => {
        fc.pre(key[at] !== key[at + 1]);
        expect(isWellFormed(`${key.slice(0, at)}${key[at + 1]}${key[at]}${key.slice(at + 2)}`)).toBe(false);
      }),
    );
  });

  it('is not well-formed if it is any other text', () => {
    fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => expect(isWellFormed(`mk_${text}`)).toBe(false)));
    expect(isWellFormed(`${newRawKey()}\n`)).toBe(false);
  });
});

describe('base 62', () => {
  it('encodes different numbers of one length differently, in the same number of digits', () => {
    const bytes = fc.uint8Array({ minLength: 32, maxLength: 32 });
    fc.assert(
      fc.property(bytes, bytes, (one, other) => {
        expect(base62(one)).toHaveLength(43);
        expect(base62(one) === base62(other)).toBe(Buffer.from(one).equals(Buffer.from(other)));
      }),
    );
    expect(base62(new Uint8Array(4).fill(255))).toHaveLength(6);
    expect(base62(new Uint8Array(32).fill(255))).toHaveLength(43);
  });
});
