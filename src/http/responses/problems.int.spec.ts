import type { TestServer } from '../../../test/support/http-server.ts';
import { chunked, expectProblem, sendRaw, startSampleServer } from '../../../test/support/sample-server.ts';
import { toProblem } from './problems.ts';

let server: TestServer;
beforeAll(async () => {
  server = await startSampleServer();
});
afterAll(() => server?.close());

describe('every error is a problem document', () => {
  it('for an unknown address', async () => {
    expectProblem(await server.request('GET', '/nowhere?token=canary'), 404, 'not_found');
    expectProblem(await server.request('POST', '/nowhere', { json: {} }), 404, 'not_found');
    expectProblem(await server.request('POST', '/nowhere', { body: '<x/>', headers: { 'content-type': 'text/xml' } }), 404, 'not_found');
  });

  it('for a method that the address does not accept, naming those it accepts', async () => {
    const answer = await server.request('DELETE', '/t/things');
    expectProblem(answer, 405, 'method_not_allowed');
    expect(answer.headers.get('allow')).toBe('POST');
    expectProblem(await server.request('PATCH', '/t/fails/x'), 405, 'method_not_allowed');
  });

  it('for a malformed address', async () => {
    expectProblem(await server.request('GET', '/t/fails/%ff'), 400, 'invalid_request');
  });

  it('for a body that is not JSON, not UTF-8, or too deep', async () => {
    const post = (body: string | Buffer) =>
      server.request('POST', '/t/things', { body, headers: { 'content-type': 'application/json' }, credential: 'mk_none' });
    expectProblem(await post('{"name":'), 400, 'invalid_request');
    expectProblem(await post(Buffer.from([0x22, 0xff, 0x22])), 400, 'invalid_request');
    expectProblem(await post('['.repeat(100_000)), 400, 'invalid_request');
    expectProblem(await post(`{"name":${'['.repeat(65)}${']'.repeat(65)}}`), 400, 'invalid_request');
    expectProblem(await post('[]'), 400, 'invalid_request');
    expectProblem(await post('"text"'), 400, 'invalid_request');
    expectProblem(await post('null'), 400, 'invalid_request');
    expectProblem(await post(''), 400, 'invalid_request');
  });

  it('for text that can not be stored, naming the field', async () => {
    for (const name of ['a\0b', 'a\ud800b']) {
      const answer = await server.request('POST', '/t/things', { json: { name }, credential: 'mk_none' });
      expectProblem(answer, 400, 'invalid_request');
      expect(answer.json.errors).toEqual([{ field: 'name', message: expect.any(String) }]);
    }
  });

  it('for a body that is too large, announced or not', async () => {
    const body = JSON.stringify({ name: 'x'.repeat(1_048_577) });
    expectProblem(
      await server.request('POST', '/t/things', { body, headers: { 'content-type': 'application/json' }, credential: 'mk_none' }),
      413,
      'payload_too_large',
    );
    expect(await chunked(server.url, 'POST /t/things', 1_100_000)).toMatch(/^HTTP\/1\.1 413 [\s\S]*payload_too_large/);
  });

  it('for a media type that the address does not accept, and for a compressed body', async () => {
    for (const headers of [
      { 'content-type': 'text/xml' },
      { 'content-type': 'application/json\ttext/plain' },
      { 'content-type': 'application/json', 'content-encoding': 'gzip' },
    ] as Record<string, string>[])
      expectProblem(
        await server.request('POST', '/t/things', { body: '{}', headers, credential: 'mk_none' }),
        415,
        'unsupported_media_type',
      );
  });

  it('for all invalid fields at once, nested ones with their path, in the caller’s spelling', async () => {
    const answer = await server.request('POST', '/t/things', {
      credential: 'mk_none',
      json: {
        parts: [
          { name: 'too long', size: 1 },
          { name: 'ok', size: 'x', owner: 'me' },
        ],
        status: 'active',
      },
    });
    expectProblem(answer, 400, 'invalid_request');
    expect(answer.json.errors.map((error: { field: string }) => error.field).sort()).toEqual([
      'name',
      'parts.0.name',
      'parts.1.owner',
      'parts.1.size',
      'status',
    ]);
    expect(answer.json.detail).toContain('status: is not a known field');
  });

  it('for names that reach a prototype', async () => {
    const answer = await server.request('POST', '/t/things', {
      body: '{"name":"x","__proto__":{"admin":true}}',
      headers: { 'content-type': 'application/json' },
      credential: 'mk_none',
    });
    expectProblem(answer, 400, 'invalid_request');
    expect(({} as Record<string, unknown>).admin).toBeUndefined();
  });

  it('for numbers in a query that are not whole or not in bounds', async () => {
    for (const limit of ['0', '201', '-1', '1e2', '', '1.5', 'NaN', '1&limit=2'])
      expectProblem(await server.request('GET', `/t/list?limit=${limit}`, { credential: 'mk_none' }), 400, 'invalid_request');
    expect((await server.request('GET', '/t/list?limit=7', { credential: 'mk_none' })).json).toEqual({ limit: 7 });
    expectProblem(await server.request('GET', '/t/list?order=up', { credential: 'mk_none' }), 400, 'invalid_request');
  });

  it('for our own refusals with their members, and for internal errors without any detail', async () => {
    const refused = await server.request('GET', '/t/fails/refusal');
    expectProblem(refused, 402, 'seat_limit');
    expect(refused.json.seats).toBe(3);
    const away = await server.request('GET', '/t/fails/engine');
    expectProblem(away, 503, 'runtime_unavailable');
    expect(away.headers.get('retry-after')).toMatch(/^\d+$/);
    const failed = await server.request('GET', '/t/fails/other');
    expectProblem(failed, 500, 'internal_error');
    expect(`${failed.text}${away.text}`).not.toContain('canary');
    expect(server.logLines.some((line) => line.includes(failed.json.request_id) && line.includes('canary inside'))).toBe(true);
  });

  it('for a request without a Host, and for an unsupported expectation', async () => {
    const problem = /^HTTP\/1\.1 400 [\s\S]*application\/problem\+json[\s\S]*invalid_request/;
    expect(await sendRaw(server.url, 'GET /health HTTP/1.1\r\nconnection: close\r\n\r\n')).toMatch(problem);
    expect(await sendRaw(server.url, 'GET /health HTTP/1.1\r\nhost: x\r\nexpect: miracles\r\n\r\n')).toMatch(problem);
    expect(await sendRaw(server.url, 'GET /health HTTP/1.0\r\n\r\n')).toMatch(/^HTTP\/1\.1 200 /);
  });

  it('for input that is not HTTP, and for headers that are too large', async () => {
    expect(await sendRaw(server.url, 'HELLO\r\n\r\n')).toMatch(/^HTTP\/1\.1 400 [\s\S]*application\/problem\+json[\s\S]*invalid_request/);
    const long = `GET /health HTTP/1.1\r\nhost: x\r\nx-long: ${'x'.repeat(20_000)}\r\n\r\n`;
    expect(await sendRaw(server.url, long)).toMatch(/^HTTP\/1\.1 413 [\s\S]*payload_too_large/);
    const both = 'POST /t/things HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n';
    expect(await sendRaw(server.url, both)).toMatch(/^HTTP\/1\.1 400 /);
  });
});

describe('a problem', () => {
  it('reveals of an unknown error only that there was one', () => {
    const error = Object.assign(new Error('password=canary'), { code: 'EWHATEVER', detail: 'canary' });
    const answer = toProblem(error, 'r1');
    expect(answer).toMatchObject({ status: 500, body: { code: 'internal_error', request_id: 'r1' } });
    expect(JSON.stringify(answer)).not.toContain('canary');
  });

  it.each(['ECONNREFUSED', '57P01', '53300', '08006'])(
    'reports a lost database (%s) as an unavailable store, with the time to retry',
    (code) => {
      const answer = toProblem(Object.assign(new Error('x'), { code }), 'r1');
      expect(answer).toMatchObject({ status: 503, headers: { 'retry-after': '5' }, body: { code: 'event_store_unavailable' } });
    },
  );

  it.each([null, undefined, 'text', 7, {}])('can be created from anything thrown: %p', (thrown) => {
    expect(toProblem(thrown, 'r1').status).toBe(500);
  });
});
