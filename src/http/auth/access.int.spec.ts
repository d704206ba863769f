import { connect } from 'node:net';

import { Controller, Get } from '@nestjs/common';

import type { TestServer } from '../../../test/support/http-server.ts';
import { chunked, expectProblem, seen, sendRaw, startSampleServer } from '../../../test/support/sample-server.ts';
import { untilTrue } from '../../../test/support/until.ts';
import { OpenRequests } from './open-requests.ts';

let server: TestServer;
beforeAll(async () => {
  server = await startSampleServer();
});
afterAll(() => server?.close());

describe('credentials', () => {
  it.each(['mk_manage', 'ms_member'])('%s is accepted in either header, and in both if they agree', async (credential) => {
    const id = { id: credential };
    expect((await server.request('GET', '/t/caller', { credential })).json).toEqual(id);
    expect((await server.request('GET', '/t/caller', { headers: { 'x-api-key': credential } })).json).toEqual(id);
    expect((await server.request('GET', '/t/caller', { credential, headers: { 'x-api-key': credential } })).json).toEqual(id);
  });

  it.each([
    ['none', {}],
    ['an unknown one', { 'x-api-key': 'mk_unknown' }],
    ['an unknown session', { authorization: 'Bearer ms_unknown' }],
    ['something else', { authorization: 'Bearer xyz' }],
    ['another scheme', { authorization: 'Basic bWtfbWFuYWdlOg==' }],
    ['an empty one', { 'x-api-key': '' }],
    ['two that disagree', { 'x-api-key': 'mk_manage', authorization: 'Bearer mk_deploy' }],
    ['two that disagree, one of them valid', { 'x-api-key': 'mk_manage', authorization: 'Bearer mk_unknown' }],
    ['a valid key beside another scheme', { 'x-api-key': 'mk_manage', authorization: 'Basic eDp5' }],
  ] as [string, Record<string, string>][])('%s is a 401', async (_, headers) => {
    const answer = await server.request('GET', '/t/caller', { headers });
    expectProblem(answer, 401, 'unauthenticated');
    expect(answer.headers.get('www-authenticate')).toContain('Bearer');
  });

  it('two Authorization headers are a 401, whatever their values', async () => {
    const twice = (second: string) =>
      sendRaw(
        server.url,
        `GET /t/caller HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer mk_manage\r\nAuthorization: ${second}\r\n\r\n`,
      );
    for (const second of ['Bearer mk_deploy', 'Bearer mk_manage']) expect(await twice(second)).toMatch(/^HTTP\/1\.1 401 /);
  });

  const allowed: Record<string, string[]> = {
    provision: ['mk_provision', 'mk_manage', 'ms_member', 'ms_admin'],
    deploy: ['mk_deploy', 'mk_manage', 'ms_member', 'ms_admin'],
    manage: ['mk_manage', 'ms_member', 'ms_admin'],
    computers: ['mk_computers', 'ms_member', 'ms_admin'],
    either: ['mk_computers', 'mk_deploy', 'mk_manage', 'ms_member', 'ms_admin'],
    session: ['ms_member', 'ms_admin'],
    admin: ['ms_admin'],
  };
  it.each(Object.keys(allowed))('/t/%s is open to exactly the callers that its rule allows', async (route) => {
    for (const credential of ['mk_none', 'mk_provision', 'mk_deploy', 'mk_manage', 'mk_computers', 'ms_member', 'ms_admin']) {
      const answer = await server.request('GET', `/t/${route}`, { credential });
      const refused = credential.startsWith('mk_') && ['session', 'admin'].includes(route) ? 401 : 403;
      expect([credential, answer.status]).toEqual([credential, allowed[route]!.includes(credential) ? 200 : refused]);
      if (answer.status === 403 && route !== 'admin')
        expect(answer.json.required_scopes).toEqual(route === 'either' ? ['computers', 'deploy'] : [route]);
    }
  });

  it('are required however the address is written', async () => {
    for (const path of [
      '//t/caller',
      '/t/caller/',
      '/t/%63aller',
      '/T/caller',
      '/t//caller',
      '/t/x/../caller',
      '/t/caller;x',
      '/t%2fcaller',
    ])
      expect([path, [401, 404]]).toEqual([path, expect.arrayContaining([(await server.request('GET', path)).status])]);
    expect((await server.request('GET', '/t/%63aller')).status).toBe(401);
    expect((await server.request('HEAD', '/t/caller')).status).toBe(401);
  });
});

describe('a start with a route without an access rule', () => {
  @Controller('open')
  class SilentController {
    @Get() silent() {
      return {};
    }
  }

  it('is refused, and the error names the route', async () => {
    const start = startSampleServer(SilentController);
    await expect(start).rejects.toThrow('GET /open');
  });
});

describe('a caller that is refused', () => {
  /** Announces a megabyte and sends none of it. */
  const announce = (path: string, headers: string) =>
    sendRaw(server.url, `POST ${path} HTTP/1.1\r\nhost: x\r\n${headers}content-type: application/json\r\ncontent-length: 1000000\r\n\r\n{`);

  it.each([
    ['without a credential', '/t/things', '', 401],
    ['with one that is unknown', '/t/things', 'x-api-key: mk_unknown\r\n', 401],
    ['without the scope', '/t/scoped', 'x-api-key: mk_none\r\n', 403],
    ['at an address where nothing is', '/nowhere', '', 404],
  ])('%s gets its response before its body has arrived, and the connection ends', async (_, path, headers, status) => {
    expect(await announce(path, headers)).toMatch(new RegExp(`^HTTP/1.1 ${status} [\\s\\S]*problem\\+json`));
  });
});

describe('a caller without a credential, on a route that is open to everybody,', () => {
  it('may send 16 kB and no more', async () => {
    const send = (bytes: number) => server.request('POST', '/t/greeting', { json: { name: 'x'.repeat(bytes - 11) } });
    expect((await send(16_384)).status).toBe(201);
    expectProblem(await send(16_385), 413, 'payload_too_large');
    const chunks = await chunked(server.url, 'POST /t/greeting', 20_000, '');
    expect(chunks).toMatch(/^HTTP\/1\.1 413 /);
  });
});

describe('callers without a credential, on a route that is open to everybody,', () => {
  it('may have at most 4 MiB of bodies in transit in total', async () => {
    const { hostname, port } = new URL(server.url);
    const head = 'POST /t/greeting HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 16384\r\n\r\n';
    let refused = 0;
    const sockets = Array.from({ length: 300 }, () => {
      const socket = connect(Number(port), hostname, () => socket.write(head + ' '.repeat(16_383)));
      socket.on('error', () => undefined);
      return socket.on('data', (chunk) => (refused += /^HTTP\/1\.1 429 [\s\S]*rate_limited/.test(chunk.toString()) ? 1 : 0));
    });
    await untilTrue(() => refused > 0);
    for (const socket of sockets) socket.destroy();
  });
});

describe('a caller who leaves before the end of the response', () => {
  const running = () => server.app.get(OpenRequests).callers('api_key').length;
  const leave = async (body: string) => {
    const { hostname, port } = new URL(server.url);
    const connection = connect(Number(port), hostname);
    const head = `POST /t/once HTTP/1.1\r\nhost: x\r\nx-api-key: mk_manage\r\ncontent-type: application/json\r\ncontent-length: 16\r\n\r\n`;
    connection.write(head + body);
    await untilTrue(() => running() === 1);
    connection.destroy();
    await untilTrue(() => running() === 0);
  };

  it('leaves nothing in memory, in the middle of the body or of the work', async () => {
    await leave('{"name": ');
    let goOn = () => {};
    seen.gate = new Promise((resolve) => (goOn = resolve));
    await leave('{"name": "bolt"}');
    goOn();
  });
});
