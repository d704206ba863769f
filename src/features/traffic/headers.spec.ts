import fc from 'fast-check';

import { type Caller, headerOf, headersForAgent, headersForCaller, type RawHeaders } from './headers.ts';

const prefix = '/a/01890000-0000-7000-8000-000000000000';
const host = 'mooring.example.com';
const caller: Caller = { address: '203.0.113.7', protocol: 'https', host, httpVersion: '1.1', requestId: 'r1' };
const key = `mk_${'k'.repeat(49)}`;
const session = `ms_${'s'.repeat(43)}`;

/** Returns what the agent gets of these headers. */
function toAgent(raw: RawHeaders, method = 'GET', { isUpgrade = false, at = prefix }: { isUpgrade?: boolean; at?: string | null } = {}) {
  const given = headersForAgent({ method, raw, isUpgrade, prefix: at }, caller);
  return (name: string) => headerOf(given, name);
}

/** Returns what the caller gets of these headers. */
function toCaller(raw: RawHeaders, at: string | null = prefix) {
  const given = headersForCaller(raw, host, at);
  return (name: string) => headerOf(given, name);
}

describe('an agent', () => {
  it.each<[string, RawHeaders, string]>([
    ['the connection', ['Connection', 'keep-alive', 'Keep-Alive', 'timeout=5'], 'keep-alive'],
    ['a header that Connection names', ['X-Hop', '1', 'Connection', 'close, X-HOP'], 'x-hop'],
    ['a proxy’s credentials', ['Proxy-Authorization', 'Basic eDp5'], 'proxy-authorization'],
    ['transfer codings that the caller takes', ['TE', 'trailers'], 'te'],
    ['another protocol', ['Connection', 'Upgrade', 'Upgrade', 'h2c'], 'upgrade'],
    ['an expectation', ['Expect', '100-continue'], 'expect'],
    ['a key', ['Authorization', `Bearer ${key}`], 'authorization'],
    ['a session', ['authorization', `bearer  ${session}`], 'authorization'],
    ['a short key', ['Authorization', 'Bearer mk_x'], 'authorization'],
    ['a key as a password', ['Authorization', `Basic ${Buffer.from(`me:${key}`).toString('base64')}`], 'authorization'],
    ['a key of its own header', ['X-API-Key', key], 'x-api-key'],
    ['a session in a cookie', ['Cookie', `a=b; token=${session}`], 'cookie'],
    ['a ticket in a protocol’s name', ['Sec-WebSocket-Protocol', `chat, mt_${'t'.repeat(43)}`], 'sec-websocket-protocol'],
    ['a webhook’s token', ['X-Service-Webhook-Token', 'whatever'], 'x-service-webhook-token'],
    ['a real address of the caller’s choice', ['X-Real-IP', '10.0.0.1'], 'x-real-ip'],
    ['an address of the caller’s choice behind an underscore', ['X_Forwarded_For', '10.0.0.1'], 'x_forwarded_for'],
    ['a port of the caller’s choice', ['X-Forwarded-Port', '1'], 'x-forwarded-port'],
  ])('is not told of %s', (_, raw, name) => {
    expect(toAgent(raw)(name)).toBeUndefined();
  });

  it.each<[string, RawHeaders, string, string]>([
    ['a credential of its own', ['Authorization', 'Bearer sk-abc'], 'authorization', 'Bearer sk-abc'],
    ['a password of its own', ['Authorization', 'Basic eDp5'], 'authorization', 'Basic eDp5'],
    ['a key of its own', ['x-api-key', 'sk-ant-1'], 'x-api-key', 'sk-ant-1'],
    ['its cookies', ['Cookie', 'a=b; c=d'], 'cookie', 'a=b; c=d'],
    ['a header that comes twice', ['Accept', 'a', 'Accept', 'b'], 'accept', 'a, b'],
    ['the origin of a page', ['Origin', 'https://other.example'], 'origin', 'https://other.example'],
    ['the wish for a part', ['Range', 'bytes=0-1'], 'range', 'bytes=0-1'],
  ])('gets %s', (_, raw, name, value) => {
    expect(toAgent(raw)(name)).toBe(value);
  });

  it('gets the caller’s real address and host, whatever the caller sends', () => {
    const lies = [
      'Host',
      'x',
      'X-Forwarded-For',
      '1.1.1.1',
      'X-Forwarded-Host',
      'y',
      'x-forwarded-proto',
      'ftp',
      'Forwarded',
      'for=1.1.1.1',
    ];
    const told = toAgent([...lies, 'X-Forwarded-Prefix', '/z', 'X-Request-Id', 'q']);
    expect(
      ['host', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-forwarded-prefix', 'x-request-id', 'forwarded'].map(told),
    ).toEqual([host, '203.0.113.7', host, 'https', prefix, 'r1', `for="203.0.113.7";host="${host}";proto=https`]);
    expect(toAgent([], 'GET', { at: null })('x-forwarded-prefix')).toBeUndefined();
  });

  it('is told of an IPv6 address in brackets, and of the proxies on the way', () => {
    const given = headersForAgent({ method: 'GET', raw: ['Via', '1.0 fred'], isUpgrade: false, prefix }, { ...caller, address: '::1' });
    expect(headerOf(given, 'forwarded')).toContain('for="[::1]"');
    expect(headerOf(given, 'via')).toBe('1.0 fred, 1.1 mooring');
  });

  it.each<[string, string, RawHeaders, string | undefined, string | undefined]>([
    ['a body with a length', 'POST', ['Content-Length', '5'], '5', undefined],
    ['a body in chunks', 'POST', ['Transfer-Encoding', 'Chunked'], undefined, 'chunked'],
    ['no body', 'POST', [], '0', undefined],
    ['no body', 'GET', [], undefined, undefined],
    ['a body in chunks', 'DELETE', ['transfer-encoding', 'chunked'], undefined, 'chunked'],
    ['a length that Connection names', 'POST', ['Content-Length', '5', 'Connection', 'content-length'], '5', undefined],
  ])('gets %s of %s as it is', (_, method, raw, length, coding) => {
    const told = toAgent(raw, method);
    expect([told('content-length'), told('transfer-encoding')]).toEqual([length, coding]);
  });

  it('gets a WebSocket handshake as one', () => {
    const told = toAgent(['Connection', 'keep-alive, Upgrade', 'Upgrade', 'websocket', 'Sec-WebSocket-Key', 'k'], 'GET', {
      isUpgrade: true,
    });
    expect(['connection', 'upgrade', 'sec-websocket-key'].map(told)).toEqual(['Upgrade', 'websocket', 'k']);
  });
});

describe('a caller', () => {
  it.each<[string, RawHeaders, string, string | undefined]>([
    ['nothing of the connection to the agent', ['Connection', 'close, X-Hop', 'X-Hop', '1'], 'x-hop', undefined],
    ['no transfer coding', ['Transfer-Encoding', 'chunked'], 'transfer-encoding', undefined],
    ['no orders for the whole origin: HSTS', ['Strict-Transport-Security', 'max-age=1'], 'strict-transport-security', undefined],
    ['no orders for the whole origin: storage', ['Clear-Site-Data', '"*"'], 'clear-site-data', undefined],
    ['no orders for the whole origin: another server', ['Alt-Svc', 'h3=":1"'], 'alt-svc', undefined],
    ['no wider service worker', ['Service-Worker-Allowed', '/'], 'service-worker-allowed', undefined],
    ['no header in the service’s name', ['X-Agent-Woken', 'true'], 'x-agent-woken', undefined],
    ['the length', ['Content-Length', '5'], 'content-length', '5'],
    ['permission for other origins', ['Access-Control-Allow-Origin', '*'], 'access-control-allow-origin', '*'],
    [
      'both policies',
      ['Content-Security-Policy', "default-src 'self'"],
      'content-security-policy',
      expect.stringMatching(/^default-src 'self', sandbox /),
    ],
    ['an address of the agent', ['Location', '/login?x=1'], 'location', `${prefix}/login?x=1`],
    ['an address that has the prefix', ['Location', `${prefix}/login`], 'location', `${prefix}/login`],
    ['an absolute address of the agent', ['Location', `https://${host}/login`], 'location', `https://${host}${prefix}/login`],
    ['the service’s root as the agent’s', ['Location', `https://${host}`], 'location', `https://${host}${prefix}/`],
    ['another site', ['Location', 'https://other.example/x'], 'location', 'https://other.example/x'],
    ['another site without a scheme', ['Location', '//other.example/x'], 'location', '//other.example/x'],
    ['a relative address', ['Location', 'next'], 'location', 'next'],
    ['a cookie for the agent alone', ['Set-Cookie', 'a=b'], 'set-cookie', `a=b; Path=${prefix}/`],
    ['a cookie without its domain', ['Set-Cookie', 'a=b; Domain=example.com; Secure'], 'set-cookie', `a=b; Secure; Path=${prefix}/`],
    ['a cookie of a folder', ['set-cookie', 'a=b; path=/x; HttpOnly'], 'set-cookie', `a=b; HttpOnly; Path=${prefix}/x`],
    ['a cookie that knows the prefix', ['Set-Cookie', `a=b;PATH=${prefix}/x`], 'set-cookie', `a=b; Path=${prefix}/x`],
    ['a password for the agent alone', ['WWW-Authenticate', 'Basic realm="x"'], 'www-authenticate', `Basic realm="${prefix} x"`],
    ['no orders for the whole origin: a session', ['Secure-Session-Registration', '(ES256)'], 'secure-session-registration', undefined],
    ['no orders for the whole origin: a dictionary', ['Use-As-Dictionary', 'match="/*"'], 'use-as-dictionary', undefined],
    ['no orders for the whole origin: pages to fetch', ['Speculation-Rules', '"/rules.json"'], 'speculation-rules', undefined],
    ['no order to the proxy in front: another file', ['X-Accel-Redirect', '/metrics'], 'x-accel-redirect', undefined],
    ['no order to the proxy in front: how long to keep it', ['x_accel_expires', '600'], 'x_accel_expires', undefined],
    ['no order to the proxy in front: a file of the host', ['X-Sendfile', '/etc/passwd'], 'x-sendfile', undefined],
    ['no order to the proxy in front: a file, older', ['X-LIGHTTPD-send-file', '/etc/passwd'], 'x-lighttpd-send-file', undefined],
    ['no order to the proxy in front: another address', ['X-Reproxy-URL', 'http://10.0.0.1/'], 'x-reproxy-url', undefined],
    ['what only looks like one', ['X-Accelerated', 'yes'], 'x-accelerated', 'yes'],
    ['no cookie for the whole host', ['Set-Cookie', '__Host-a=b; Path=/; Secure'], 'set-cookie', undefined],
  ])('of an agent under a path gets %s', (_, raw, name, value) => {
    expect(toCaller(raw)(name)).toEqual(value);
  });

  it.each<[string, RawHeaders, string, string | undefined]>([
    ['its orders for the origin', ['Strict-Transport-Security', 'max-age=1'], 'strict-transport-security', 'max-age=1'],
    ['its addresses', ['Location', '/login'], 'location', '/login'],
    ['its realm', ['WWW-Authenticate', 'Basic realm="x"'], 'www-authenticate', 'Basic realm="x"'],
    ['its cookies, for this host alone', ['Set-Cookie', 'a=b; Path=/; Domain=agents.example.net'], 'set-cookie', 'a=b; Path=/'],
    ['no policy of the service', [], 'content-security-policy', undefined],
  ])('of an agent with a host name of its own gets %s', (_, raw, name, value) => {
    expect(toCaller(raw, null)(name)).toBe(value);
  });
});

describe('any headers', () => {
  const names =
    'Connection Keep-Alive TE Upgrade Transfer-Encoding Content-Length Host Via Forwarded X-Forwarded-For Authorization X-Api-Key ' +
    'Cookie Set-Cookie Location X-Hop Accept Service-Worker-Allowed';
  const value = fc.oneof(
    fc.string({ maxLength: 40 }),
    fc.constantFrom(
      key,
      session,
      `Bearer ${key}`,
      `a=${session}; b=c`,
      'X-Hop, Cookie',
      'Host',
      '/x',
      `//${host}/`,
      'a=b; Path=/../; Domain=x',
      'a',
    ),
  );
  const spelling = (name: string) => fc.constantFrom(name, name.toLowerCase(), name.toUpperCase());
  const header = fc.tuple(fc.constantFrom(...names.split(' ')).chain(spelling), value);
  const headers = fc.array(header, { maxLength: 12 }).map((all) => all.flat());

  it('an agent gets one host, one framing, the true caller, and none of the service’s credentials', () => {
    fc.assert(
      fc.property(headers, fc.constantFrom('GET', 'POST', 'DELETE'), (raw, method) => {
        const given = headersForAgent({ method, raw, isUpgrade: false, prefix }, caller);
        const count = (name: string) => given.filter((part, at) => at % 2 === 0 && part.toLowerCase() === name).length;
        expect(['host', 'x-forwarded-for', 'forwarded', 'via', 'connection'].map(count)).toEqual([1, 1, 1, 1, 0]);
        expect(count('content-length') + count('transfer-encoding')).toBeLessThanOrEqual(1);
        expect(headerOf(given, 'x-forwarded-for')).toBe(caller.address);
        const others = given.filter((part, at) => at % 2 === 1 && given[at - 1] !== 'Content-Length');
        expect(others.join('\n')).not.toMatch(/m[ks]_[ks]{20}/);
      }),
    );
  });

  it('a caller gets cookies for the agent alone, and no path that leaves it', () => {
    fc.assert(
      fc.property(headers, (raw) => {
        const given = headersForCaller(raw, host, prefix);
        given.forEach((part, at) => {
          const name = at % 2 === 1 ? (given[at - 1] as string).toLowerCase() : '';
          if (name === 'set-cookie') expect(part).toMatch(new RegExp(`; Path=${prefix}(/|$)`));
          if (name === 'set-cookie') expect(part).not.toMatch(/;\s*domain/i);
          if (name === 'location') expect(part).not.toMatch(/^\/(?!a\/|\/)/);
          expect(['keep-alive', 'te', 'upgrade', 'connection', 'transfer-encoding', 'service-worker-allowed']).not.toContain(name);
        });
        expect(headerOf(given, 'content-security-policy')).toMatch(/^sandbox /);
      }),
    );
  });
});
