import fc from 'fast-check';

import { holdsCredential } from './credentials.ts';

const key = `mk_${'aK7'.repeat(16)}x`;
const session = `ms_${'bS2'.repeat(14)}y`;
const token = `mwh_${'cW-_9'.repeat(9)}`;
const base64 = (text: string) => Buffer.from(text).toString('base64');
const base64url = (text: string) => Buffer.from(text).toString('base64url');
const lines = (text: string, width: number) => text.replace(new RegExp(`.{${width}}`, 'g'), '$&\n');

describe('a header that holds a credential of the service', () => {
  it.each([
    ['cookie', `a=${session}`],
    ['cookie', `a=Bearer%20${key}`],
    ['cookie', `s=%7B%22token%22%3A%22${key}%22%7D`],
    ['cookie', `a=%22${session}%22`],
    ['cookie', `a=${key.replace('_', '%5F')}`],
    ['cookie', `a=%2522${session}%2522`],
    ['cookie', `s=${base64(JSON.stringify({ token: key }))}`],
    ['cookie', `s=${encodeURIComponent(base64(`x${key}`))}`],
    ['referer', `https://x.example/?k=Bearer%20${key}`],
    ['authorization', `Bearer%20${key}`],
    ['authorization', `Basic ${base64(`u:${key.replace('_', '%5F')}`)}`],
    ['authorization', `Digest x, Basic ${base64(`u:${key}`)}`],
    ['x-original-authorization', `Basic ${base64(`u:${key}`)}`],
    ['sec-websocket-protocol', `chat, base64url.bearer.authorization.${base64url(key)}`],
    ['x-token', `prefix-${base64url(session)}`],
    ['x-hub', token],
    ['x-note', `word${key}`],
    ['cookie', `s=${base64(base64(key))}`],
    ['cookie', `s=${base64(base64(base64(session)))}`],
    ['cookie', `s=${base64(JSON.stringify({ authorization: `Basic ${base64(`u:${key}`)}` }))}`],
    ['cookie', `s=${encodeURIComponent(lines(base64(JSON.stringify({ name: 'x'.repeat(50), key })), 60))}`],
    ['cookie', `s=${lines(base64(`${'x'.repeat(40)}${session}`), 76).replaceAll('\n', ' ')}`],
    ['cookie', `s={"k":"${key.replace('_', '\\u005f')}"}`],
    ['cookie', `s=${base64(JSON.stringify(JSON.stringify({ k: key })).replace('_', '\\\\u005F'))}`],
    ['cookie', `s=${Buffer.from(key, 'utf16le').toString('base64')}`],
    ['cookie', `s=${Buffer.from(key).toString('hex')}`],
    ['cookie', `s=a${Buffer.from(key).toString('hex')}`],
    ['cookie', `a=%252522${session.replace('_', '%25255F')}`],
  ])('is found: %s: %s', (name, value) => {
    expect(holdsCredential(name, value)).toBe(true);
  });

  it.each([
    ['cookie', 'form_state=items_1; params_x=abc'],
    ['cookie', `terms_of_service=accepted; sid=${base64('a'.repeat(60))}`],
    ['authorization', 'Bearer sk-abc'],
    ['authorization', `Basic ${base64('x:y')}`],
    ['cookie', 'a=%E4%ZZ%'],
    ['x-note', 'the terms_of service are those that were accepted by the holder of this account in the year before'],
    [
      'cookie',
      `jwt=${base64url(JSON.stringify({ alg: 'RS256' }))}.${base64url(JSON.stringify({ sub: 'a'.repeat(3_000) }))}.${'Zm9v'.repeat(80)}`,
    ],
  ])('is not seen in others: %s: %s', (name, value) => {
    expect(holdsCredential(name, value)).toBe(false);
  });

  it('is found at any offset in base64 that was encoded for a URL', () => {
    fc.assert(
      fc.property(
        fc.string({ maxLength: 30 }),
        fc.string({ maxLength: 30 }),
        fc.constantFrom(key, session, token),
        (before, after, credential) => {
          expect(holdsCredential('cookie', `a=${encodeURIComponent(base64(`${before} ${credential} ${after}`))}`)).toBe(true);
        },
      ),
    );
  });

  it('is looked for in a bounded time, whatever the header is', () => {
    const nested = (depth: number): string => (depth === 0 ? 'mk_'.repeat(500) : base64(nested(depth - 1)));
    const hostile = ['A'.repeat(16_000), 'a0'.repeat(8_000), '%25'.repeat(5_300), '\\u005c'.repeat(2_600), nested(8), 'mk_'.repeat(5_300)];
    for (const value of [...hostile, base64('A'.repeat(12_000)), base64(base64('A'.repeat(9_000)))]) {
      const began = performance.now();
      holdsCredential('cookie', value.slice(0, 16_000));
      // It takes some 20 ms; the bound is one that a busy machine keeps, too.
      expect(performance.now() - began).toBeLessThan(2_000);
    }
  });
});
