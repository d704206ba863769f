import fc from 'fast-check';

import { holdsCredential } from './credentials.ts';

const key = `mk_${'aK7'.repeat(16)}x`;
const session = `ms_${'bS2'.repeat(14)}y`;
const token = `mwh_${'cW-_9'.repeat(9)}`;
const base64 = (text: string) => Buffer.from(text).toString('base64');
const base64url = (text: string) => Buffer.from(text).toString('base64url');

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
  ])('is found: %s: %s', (name, value) => {
    expect(holdsCredential(name, value)).toBe(true);
  });

  it.each([
    ['cookie', 'form_state=items_1; params_x=abc'],
    ['cookie', `terms_of_service=accepted; sid=${base64('a'.repeat(60))}`],
    ['authorization', 'Bearer sk-abc'],
    ['authorization', `Basic ${base64('x:y')}`],
    ['cookie', 'a=%E4%ZZ%'],
  ])('is not seen in others: %s: %s', (name, value) => {
    expect(holdsCredential(name, value)).toBe(false);
  });

  it('is found wherever it stands in base64 that was encoded for a URL', () => {
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
});
