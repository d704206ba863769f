import { once } from 'node:events';
import { connect } from 'node:net';

import type { TestServer } from '../../test/support/http-server.ts';
import { findSomeGit } from '../../test/support/some-git.ts';
import { expectProblem, startSampleServer } from '../../test/support/sample-server.ts';
import { until, untilTrue } from '../../test/support/until.ts';
import { ReadinessChecks } from './health/readiness-checks.service.ts';

let server: TestServer;
beforeAll(async () => {
  server = await startSampleServer();
});
afterAll(() => server?.close());
findSomeGit();

describe('requests', () => {
  it('have an id: the caller’s if it is valid, or else a new one', async () => {
    const own = await server.request('GET', '/health', { headers: { 'x-request-id': 'abc-1.2_3' } });
    expect(own.headers.get('x-request-id')).toBe('abc-1.2_3');
    for (const id of ['a b', 'x'.repeat(129), 'a"b'])
      expect((await server.request('GET', '/health', { headers: { 'x-request-id': id } })).headers.get('x-request-id')).toMatch(
        /^[0-9a-f-]{36}$/,
      );
  });

  it('are logged by route, without query strings and headers', async () => {
    await server.request('GET', '/t/fails/secret-path?token=canary-query', {
      credential: 'mk_canary',
      headers: { 'x-request-id': 'log-me' },
    });
    const line = server.logLines.map((text) => JSON.parse(text)).find((entry) => entry.request_id === 'log-me' && entry.msg === 'request');
    expect(line).toMatchObject({ method: 'GET', route: '/t/fails/:how', status: 500, ms: expect.any(Number) });
    expect(server.logLines.join('')).not.toMatch(/canary-query|mk_canary|secret-path/);
  });

  it.each([
    ['in the middle of its body', 'POST', '/t/greeting', 'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"name":', null],
    ['before it has the whole response', 'GET', '/t/endless', '\r\n', 200],
  ])('whose caller disconnects %s are logged and counted as aborted', async (_, method, route, rest, status) => {
    const id = `gone-${method}`;
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
    socket.write(`${method} ${route} HTTP/1.1\r\nHost: x\r\nX-Request-Id: ${id}\r\n${rest}`);
    if (status === null) await once(socket, 'connect');
    else await once(socket, 'data');
    socket.destroy();
    const line = await until('the request is logged', () =>
      server.logLines.map((text) => JSON.parse(text)).find((entry) => entry.request_id === id && entry.msg === 'request'),
    );
    expect(line).toMatchObject({ method, route, status, aborted: true });
    const counted = `mooring_http_request_duration_seconds_count{method="${method}",route="${route}",status="aborted"} 1`;
    await untilTrue(async () => (await server.request('GET', '/metrics')).text.includes(counted));
  });

  it('may have a body of any type if the route allows it', async () => {
    expect(
      (await server.request('PUT', '/t/raw', { body: Buffer.from([0, 255]), headers: { 'content-type': 'application/json' } })).json,
    ).toEqual({ bytes: '00ff' });
    expectProblem(
      await server.request('PUT', '/t/raw', { body: 'x'.repeat(11), headers: { 'content-type': 'text/plain' } }),
      413,
      'payload_too_large',
    );
  });

  it('contain the time that their caller would wait', async () => {
    const seconds = async (prefer: string) => (await server.request('GET', '/t/wait', { headers: { prefer } })).json;
    expect(await seconds('respond-async, wait=5')).toEqual({ seconds: 5 });
    expect(await seconds('respond-async')).toEqual({ seconds: null });
    expect(await seconds('wait=121')).toMatchObject({ code: 'invalid_request' });
  });
});

describe('the operators’ endpoints', () => {
  it('/health is ok whatever is unavailable; /ready names what is unavailable', async () => {
    const health = async (headers = {}) => (await server.request('GET', '/health', { headers })).json;
    expect(await health()).toEqual({ status: 'ok', runtime: 'fleet', version: expect.any(String) });
    expect(await health({ 'x-forwarded-for': '203.0.113.7' })).toEqual({ status: 'ok', runtime: 'fleet' });
    const ready = await server.request('GET', '/ready');
    expect(ready.status).toBe(503);
    expect(ready.json).toEqual({
      status: 'unavailable',
      dependencies: [
        { name: 'database', status: 'ok', required: true },
        { name: 'event_store', status: 'unavailable', required: true },
        { name: 'read_models', status: 'ok', required: true },
        { name: 'log_retention', status: 'unavailable', required: false },
        { name: 'runtime', status: 'unavailable', required: false },
        { name: 'git', status: 'ok', required: false },
      ],
    });
  });

  it('/ready shows callers on other machines no details, unless they have the metrics token', async () => {
    const ready = async (headers = {}) => (await server.request('GET', '/ready', { headers })).json;
    const forwarded = { 'x-forwarded-for': '203.0.113.7' };
    const whole = { status: 'degraded', dependencies: [{ name: 'runtime', status: 'ok', required: false, detail: 'upgrade it' }] };
    const bare = { status: 'degraded', dependencies: [{ name: 'runtime', status: 'ok', required: false }] };
    const checks = server.app.get(ReadinessChecks);
    const latest = jest.spyOn(checks, 'latest').mockResolvedValue(whole as Awaited<ReturnType<typeof checks.latest>>);
    server.config.metricsToken = 'a-token-of-sixteen';
    try {
      expect(await ready()).toEqual(whole);
      expect(await ready(forwarded)).toEqual(bare);
      expect(await ready({ ...forwarded, authorization: 'Bearer another' })).toEqual(bare);
      expect(await ready({ ...forwarded, authorization: 'Bearer a-token-of-sixteen' })).toEqual(whole);
    } finally {
      server.config.metricsToken = null;
      latest.mockRestore();
    }
  });

  it('/metrics counts by route, not by path', async () => {
    await server.request('GET', '/t/fails/metric-canary');
    const { text, headers } = await server.request('GET', '/metrics');
    expect(headers.get('content-type')).toContain('text/plain');
    expect(text).toContain('mooring_http_request_duration_seconds_count{method="GET",route="/t/fails/:how",status="5xx"}');
    expect(text).not.toContain('metric-canary');
  });

  it('/metrics is for callers on the same machine, and for those with its token if one is configured', async () => {
    const status = async (headers: Record<string, string> = {}) => (await server.request('GET', '/metrics', { headers })).status;
    const forwarded = { 'x-forwarded-for': '203.0.113.7' };
    expect([await status(), await status(forwarded)]).toEqual([200, 404]);
    const { metricsLoopbackOnly } = server.config;
    try {
      server.config.metricsLoopbackOnly = false;
      expect(await status(forwarded)).toBe(200);
      server.config.metricsToken = 'a-token-of-sixteen';
      expect([await status(forwarded), await status()]).toEqual([401, 401]);
      expect(await status({ authorization: 'Bearer a token of sixteeN' })).toBe(401);
      expect(await status({ ...forwarded, authorization: 'Bearer a-token-of-sixteen' })).toBe(200);
    } finally {
      Object.assign(server.config, { metricsLoopbackOnly, metricsToken: null });
    }
  });

  it('a caller on another machine gets neither metrics nor the version', async () => {
    const fastify = server.app.getHttpAdapter().getInstance();
    const from = (url: string) => fastify.inject({ method: 'GET', url, remoteAddress: '203.0.113.7' });
    expect((await from('/metrics')).statusCode).toBe(404);
    expect((await from('/health')).json()).toEqual({ status: 'ok', runtime: 'fleet' });
  });

  it('the OpenAPI document and its page are public and describe the access rule of each route', async () => {
    const document = (await server.request('GET', '/api/openapi.json')).json;
    expect(document.openapi).toBe('3.1.0');
    expect(document.paths['/api/v1/agents'].get.security).toEqual([{ apiKeyHeader: [] }, { apiKeyBearer: [] }, { session: [] }]);
    expect(document.paths['/api/v1/keys'].get.security).toEqual([{ session: [] }]);
    expect(document.paths['/api/templates'].get.security).toEqual([]);
    expect((await server.request('GET', '/api/docs')).text).toContain('swagger-ui');
    expect((await server.request('GET', '/api/docs/swagger-ui-bundle.js')).status).toBe(200);
    expectProblem(await server.request('GET', '/api/docs/../../package.json'), 404, 'not_found');
  });
});
