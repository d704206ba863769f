import { connect } from 'node:net';

import { Body, Controller, Get, HttpCode, Module, Param, Post, Put, Query, Req } from '@nestjs/common';
import { Type } from 'class-transformer';
import { IsArray, IsInt, IsOptional, IsString, MaxLength, ValidateNested } from 'class-validator';

import { Context, CurrentCaller, Public, RequireAdmin, RequireCaller, RequireScope, RequireSession } from './access.ts';
import { RawBody } from './body.ts';
import { type Caller, type CommandContext, CredentialVerifier, type Scope } from './caller.ts';
import { HttpModule } from './http.module.ts';
import { Idempotent, IdempotencyKey } from './idempotency.ts';
import { ReadsModel } from './positions.ts';
import { IntegerQuery } from './validation.ts';
import { PreferredWait } from './waiting.ts';
import { startTestServer, type TestServer } from '../../../test/support/http-server.ts';
import { testDatabase } from '../../../test/support/test-database.ts';
import { CryptoModule } from '../crypto/crypto.module.ts';
import { Database } from '../database/database.ts';
import { ReadModels } from '../projections/projection.ts';
import { Refusal } from '../refusal.ts';
import { RuntimeUnavailable } from '../runtime/runtime.ts';

class Part {
  @IsString() @MaxLength(5) name: string;
  @IsInt() size: number;
}

class Thing {
  @IsString() name: string;
  @IsOptional() @IsArray() @ValidateNested({ each: true }) @Type(() => Part) parts?: Part[];
}

class Paging {
  @IsOptional() @IntegerQuery(1, 200) limit?: number;
}

/** Counts what the handlers did, and lets a test hold one of them. */
const seen = { made: [] as (string | null)[], gate: Promise.resolve(), failNext: null as Error | null };

@Controller('t')
class ThingsController {
  @Get('open') @Public() open() {
    return { open: true };
  }
  @Get('caller') @RequireCaller() caller(@CurrentCaller() caller: Caller) {
    return { id: caller.id };
  }
  @Get('provision') @RequireScope('provision') provision() {
    return {};
  }
  @Get('deploy') @RequireScope('deploy') deploy() {
    return {};
  }
  @Get('manage') @RequireScope('manage') manage() {
    return {};
  }
  @Get('computers') @RequireScope('computers') computers() {
    return {};
  }
  @Get('either') @RequireScope('computers', 'deploy') either() {
    return {};
  }
  @Get('session') @RequireSession() session() {
    return {};
  }
  @Get('admin') @RequireAdmin() admin() {
    return {};
  }
  @Post('things') @RequireCaller() make(@Body() thing: Thing) {
    return thing;
  }
  @Post('once') @Idempotent() @RequireCaller() async once(
    @Body() thing: Thing,
    @IdempotencyKey() seed: string | null,
    @Context() context: CommandContext,
  ) {
    seen.made.push(seed);
    await seen.gate;
    const failure = seen.failNext;
    seen.failNext = null;
    if (failure) throw failure;
    context.writtenUpTo = '00000000000000000042';
    return { name: thing.name, seed, secret: 'canary-of-the-answer' };
  }
  @Get('list') @RequireCaller() list(@Query() paging: Paging) {
    return { limit: paging.limit ?? null };
  }
  @Get('model') @ReadsModel('things') @RequireCaller() model() {
    return {};
  }
  @Get('wait') @Public() wait(@PreferredWait() seconds: number | null) {
    return { seconds };
  }
  @Get('fails/:how') @Public() fails(@Param('how') how: string) {
    if (how === 'engine') throw new RuntimeUnavailable(new Error('canary inside'));
    if (how === 'refusal') throw new Refusal('seat_limit', 'All 3 seats are taken.', { members: { seats: 3 } });
    throw new Error('canary inside');
  }
  @Put('raw') @Public() @RawBody('buffer', 10) @HttpCode(200) raw(@Req() request: { body: Buffer }) {
    return { bytes: request.body.toString('hex') };
  }
}

const grants: Record<string, Partial<Caller> & { scopes: Set<Scope> }> = {
  mk_none: { scopes: new Set() },
  mk_provision: { scopes: new Set(['provision']) },
  mk_deploy: { scopes: new Set(['deploy']) },
  mk_manage: { scopes: new Set(['manage']) },
  mk_computers: { scopes: new Set(['computers']) },
  mk_other: { accountId: 'other', scopes: new Set(['manage']) },
  ms_member: { kind: 'session', scopes: new Set() },
  ms_admin: { kind: 'session', role: 'admin', scopes: new Set() },
};

class KnownCredentials extends CredentialVerifier {
  verifyApiKey(raw: string) {
    return Promise.resolve(raw.startsWith('mk_') ? this.find(raw) : null);
  }
  verifySession(token: string) {
    return Promise.resolve(token.startsWith('ms_') ? this.find(token) : null);
  }
  private find(credential: string): Caller | null {
    const grant = grants[credential];
    return grant ? { kind: 'api_key', id: credential, name: credential, accountId: 'acme', role: 'member', ...grant } : null;
  }
}

const reached: string[] = [];
class NotedReadModels extends ReadModels {
  async reached(projection: string, position: string) {
    reached.push(`${projection} ${position}`);
    if (position === '9'.repeat(20)) throw new Refusal('read_model_behind', 'The read model is behind.');
  }
}

@Module({})
class Parts {}

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer(() => ({
    imports: [
      testDatabase(),
      CryptoModule,
      HttpModule,
      {
        module: Parts,
        global: true,
        providers: [
          { provide: CredentialVerifier, useClass: KnownCredentials },
          { provide: ReadModels, useClass: NotedReadModels },
        ],
        exports: [CredentialVerifier, ReadModels],
      },
    ],
    controllers: [ThingsController],
  }));
});
afterAll(() => server?.close());

function expectProblem(answer: Awaited<ReturnType<TestServer['request']>>, status: number, code: string) {
  expect({ status: answer.status, code: answer.json?.code }).toEqual({ status, code });
  expect(answer.headers.get('content-type')).toContain('application/problem+json');
  expect(answer.json).toMatchObject({ type: `urn:mooring:problem:${code}`, title: expect.any(String), status, detail: expect.any(String) });
  expect(answer.json.request_id).toBe(answer.headers.get('x-request-id'));
  expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
}

describe('every error is a problem document', () => {
  it('for an address where nothing is', async () => {
    expectProblem(await server.request('GET', '/nowhere?token=canary'), 404, 'not_found');
    expectProblem(await server.request('POST', '/nowhere', { json: {} }), 404, 'not_found');
    expectProblem(await server.request('POST', '/nowhere', { body: '<x/>', headers: { 'content-type': 'text/xml' } }), 404, 'not_found');
  });

  it('for a method that the address does not take, naming those it takes', async () => {
    const answer = await server.request('DELETE', '/t/things');
    expectProblem(answer, 405, 'method_not_allowed');
    expect(answer.headers.get('allow')).toBe('POST');
    expectProblem(await server.request('PATCH', '/t/fails/x'), 405, 'method_not_allowed');
  });

  it('for a malformed address', async () => {
    expectProblem(await server.request('GET', '/t/fails/%ff'), 400, 'invalid_request');
    expectProblem(await server.request('GET', `/t/fails/${'x'.repeat(2_000)}`), 404, 'not_found');
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

  it('for text that no database holds, naming the field', async () => {
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

  it('for a media type that the address does not take, and for a compressed body', async () => {
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

  it('for every bad field at once, nested ones with their path, in the caller’s own words', async () => {
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

  it('for our own refusals with what they add, and for what went wrong inside without a word of it', async () => {
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

  it('for what is not HTTP, and for headers that are too large', async () => {
    expect(await raw(server.url, 'HELLO\r\n\r\n')).toMatch(/^HTTP\/1\.1 400 [\s\S]*application\/problem\+json[\s\S]*invalid_request/);
    const long = `GET /health HTTP/1.1\r\nhost: x\r\nx-long: ${'x'.repeat(20_000)}\r\n\r\n`;
    expect(await raw(server.url, long)).toMatch(/^HTTP\/1\.1 413 [\s\S]*payload_too_large/);
    const both = 'POST /t/things HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n';
    expect(await raw(server.url, both)).toMatch(/^HTTP\/1\.1 400 /);
  });
});

describe('requests', () => {
  it('bear an id: the caller’s where it is sane, else one of ours', async () => {
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

  it('may carry bytes of any type where the route says so', async () => {
    expect(
      (await server.request('PUT', '/t/raw', { body: Buffer.from([0, 255]), headers: { 'content-type': 'application/json' } })).json,
    ).toEqual({ bytes: '00ff' });
    expectProblem(
      await server.request('PUT', '/t/raw', { body: 'x'.repeat(11), headers: { 'content-type': 'text/plain' } }),
      413,
      'payload_too_large',
    );
  });

  it('say how long they would wait', async () => {
    const seconds = async (prefer: string) => (await server.request('GET', '/t/wait', { headers: { prefer } })).json;
    expect(await seconds('respond-async, wait=5')).toEqual({ seconds: 5 });
    expect(await seconds('respond-async')).toEqual({ seconds: null });
    expect(await seconds('wait=121')).toMatchObject({ code: 'invalid_request' });
  });
});

describe('credentials', () => {
  it.each(['mk_manage', 'ms_member'])('%s is taken in either header, and in both when they agree', async (credential) => {
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

  const allowed: Record<string, string[]> = {
    provision: ['mk_provision', 'mk_manage', 'ms_member', 'ms_admin'],
    deploy: ['mk_deploy', 'mk_manage', 'ms_member', 'ms_admin'],
    manage: ['mk_manage', 'ms_member', 'ms_admin'],
    computers: ['mk_computers', 'ms_member', 'ms_admin'],
    either: ['mk_computers', 'mk_deploy', 'mk_manage', 'ms_member', 'ms_admin'],
    session: ['ms_member', 'ms_admin'],
    admin: ['ms_admin'],
  };
  it.each(Object.keys(allowed))('/t/%s is open to those who may, and to nobody else', async (route) => {
    for (const credential of ['mk_none', 'mk_provision', 'mk_deploy', 'mk_manage', 'mk_computers', 'ms_member', 'ms_admin']) {
      const answer = await server.request('GET', `/t/${route}`, { credential });
      const refused = credential.startsWith('mk_') && ['session', 'admin'].includes(route) ? 401 : 403;
      expect([credential, answer.status]).toEqual([credential, allowed[route]!.includes(credential) ? 200 : refused]);
      if (answer.status === 403 && route !== 'admin')
        expect(answer.json.required_scopes).toEqual(route === 'either' ? ['computers', 'deploy'] : [route]);
    }
  });

  it('are asked for however the address is written', async () => {
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

describe('a start with a route that says nothing about access', () => {
  @Controller('open')
  class SilentController {
    @Get() silent() {
      return {};
    }
  }

  it('is refused, and the route named', async () => {
    const start = startTestServer(() => ({
      imports: [
        testDatabase(),
        CryptoModule,
        HttpModule,
        {
          module: Parts,
          global: true,
          providers: [{ provide: CredentialVerifier, useClass: KnownCredentials }],
          exports: [CredentialVerifier],
        },
      ],
      controllers: [SilentController],
    }));
    await expect(start).rejects.toThrow('GET /open');
  });
});

describe('an idempotency key', () => {
  const once = (key: string, json: unknown = { name: 'x' }, credential = 'mk_manage') =>
    server.request('POST', '/t/once', { json, credential, headers: { 'idempotency-key': key } });

  beforeEach(() => {
    seen.made.length = 0;
    seen.gate = Promise.resolve();
    seen.failNext = null;
  });

  it('makes a repeat answer as the first did, and makes nothing twice', async () => {
    const first = await once('k1');
    expect(first.status).toBe(201);
    expect(first.headers.get('idempotency-replayed')).toBeNull();
    const again = await once('k1');
    expect(again).toMatchObject({ status: 201, json: first.json });
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    expect(again.headers.get('x-event-position')).toBe('00000000000000000042');
    expect(seen.made).toHaveLength(1);
  });

  it('belongs to one request of one account', async () => {
    await once('k2');
    expectProblem(await once('k2', { name: 'y' }), 422, 'idempotency_key_reused');
    expect((await once('k2', { name: 'y' }, 'mk_other')).status).toBe(201);
    expect((await once('k2', { name: 'x' }, 'mk_deploy')).headers.get('idempotency-replayed')).toBe('true');
  });

  it('lets one of many calls at once do the work; the others learn that it is running', async () => {
    let open = () => {};
    seen.gate = new Promise((resolve) => (open = resolve));
    const calls = Array.from({ length: 20 }, () => once('k3'));
    const refused = await Promise.race(calls);
    expectProblem(refused, 409, 'idempotency_in_progress');
    open();
    const answers = await Promise.all(calls);
    const made = answers.filter(({ status, headers }) => status === 201 && !headers.has('idempotency-replayed'));
    expect(made).toHaveLength(1);
    expect(answers.every(({ status, json }) => status === 409 || json.seed === made[0]?.json.seed)).toBe(true);
    expect(seen.made).toHaveLength(1);
  });

  it('may be used again after a refusal, with a better request', async () => {
    expectProblem(await once('k4', { name: 1 }), 400, 'invalid_request');
    expect((await once('k4', { name: 'ok' })).status).toBe(201);
  });

  it('keeps its id over a try that failed inside, so that the work is not done twice', async () => {
    seen.failNext = new Error('after the append');
    expectProblem(await once('k5'), 500, 'internal_error');
    expectProblem(await once('k5', { name: 'y' }), 422, 'idempotency_key_reused');
    expect((await once('k5')).status).toBe(201);
    expect(new Set(seen.made).size).toBe(1);
    expect(seen.made).toHaveLength(2);
  });

  it('is free again when the process that had it died, and keeps its id', async () => {
    const database = server.app.get(Database, { strict: false });
    await once('k6');
    await database.query(`update idempotency_keys set state = 'running', answer = null, owner = gen_random_uuid() where id = $1`, [
      seen.made[0],
    ]);
    expectProblem(await once('k6'), 409, 'idempotency_in_progress');
    await database.query(`update idempotency_keys set claimed_at = now() - interval '11 seconds' where id = $1`, [seen.made[0]]);
    expect((await once('k6')).status).toBe(201);
    expect(seen.made[1]).toBe(seen.made[0]);
  });

  it('is forgotten after a day, and then stands for something new', async () => {
    const database = server.app.get(Database, { strict: false });
    await once('k7');
    await database.query(`update idempotency_keys set created_at = now() - interval '25 hours' where id = $1`, [seen.made[0]]);
    expect((await once('k7', { name: 'new' })).status).toBe(201);
    expect(seen.made[1]).not.toBe(seen.made[0]);
  });

  it('must be printable', async () => {
    expectProblem(await once('with space'), 400, 'invalid_request');
    expectProblem(await once('x'.repeat(256)), 400, 'invalid_request');
  });

  it('leaves neither answers nor requests readable in the database', async () => {
    await once('k8', { name: 'canary-of-the-request' });
    const rows = await server.app.get(Database, { strict: false }).query('select * from idempotency_keys');
    expect(rows.length).toBeGreaterThan(0);
    expect(JSON.stringify(rows)).not.toContain('canary');
  });
});

describe('reads', () => {
  it('wait for the write that the caller names, or for its own last one', async () => {
    reached.length = 0;
    const read = (position?: string, credential = 'mk_none') =>
      server.request('GET', '/t/model', { credential, headers: position ? { 'x-min-event-position': position } : {} });
    grants.mk_writer = { accountId: 'writer', scopes: new Set() };
    expect((await read(undefined, 'mk_writer')).status).toBe(200);
    expect(reached).toEqual([]);
    const wrote = await server.request('POST', '/t/once', { json: { name: 'x' }, credential: 'mk_writer' });
    expect(wrote.headers.get('x-event-position')).toBe('00000000000000000042');
    await read(undefined, 'mk_writer');
    await read('00000000000000000007', 'mk_writer');
    await read('00000000000000000050', 'mk_writer');
    expect(reached).toEqual(['things 00000000000000000042', 'things 00000000000000000042', 'things 00000000000000000050']);
    expectProblem(await read('seven'), 400, 'invalid_request');
    expectProblem(await read('9'.repeat(20)), 503, 'read_model_behind');
  });
});

describe('what operators look at', () => {
  it('/health is ok whatever else is away; /ready names what is', async () => {
    expect((await server.request('GET', '/health')).json).toEqual({ status: 'ok', runtime: 'fleet', version: expect.any(String) });
    const ready = await server.request('GET', '/ready');
    expect(ready.status).toBe(503);
    expect(ready.json).toEqual({
      status: 'unavailable',
      dependencies: [
        { name: 'database', status: 'ok', required: true },
        { name: 'event_store', status: 'unavailable', required: true },
        { name: 'runtime', status: 'unavailable', required: false },
      ],
    });
  });

  it('/metrics counts by route, not by address', async () => {
    await server.request('GET', '/t/fails/metric-canary');
    const { text, headers } = await server.request('GET', '/metrics');
    expect(headers.get('content-type')).toContain('text/plain');
    expect(text).toContain('mooring_http_request_duration_seconds_count{method="GET",route="/t/fails/:how",status="500"}');
    expect(text).not.toContain('metric-canary');
  });

  it('the OpenAPI document and its page are open to everybody and say what each route asks', async () => {
    const document = (await server.request('GET', '/api/openapi.json')).json;
    expect(document.openapi).toBe('3.1.0');
    expect(document.paths['/t/deploy'].get.security).toEqual([{ apiKeyHeader: [] }, { apiKeyBearer: [] }, { session: [] }]);
    expect(document.paths['/t/admin'].get.security).toEqual([{ session: [] }]);
    expect(document.paths['/t/fails/{how}'].get.security).toEqual([]);
    expect((await server.request('GET', '/api/docs')).text).toContain('swagger-ui');
    expect((await server.request('GET', '/api/docs/swagger-ui-bundle.js')).status).toBe(200);
    expectProblem(await server.request('GET', '/api/docs/../../package.json'), 404, 'not_found');
  });
});

/** Sends bytes as they are and answers all that comes back. */
function raw(url: string, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1', () => socket.write(text));
    let received = '';
    socket.on('data', (chunk) => (received += chunk.toString()));
    socket.on('close', () => resolve(received));
    socket.on('error', (error: NodeJS.ErrnoException) =>
      error.code === 'ECONNRESET' || error.code === 'EPIPE' ? resolve(received) : reject(error),
    );
  });
}

function chunked(url: string, target: string, bytes: number): Promise<string> {
  const [method, path] = target.split(' ');
  const head = `${method} ${path} HTTP/1.1\r\nhost: x\r\nx-api-key: mk_none\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n`;
  return raw(url, `${head}${bytes.toString(16)}\r\n${'x'.repeat(bytes)}\r\n0\r\n\r\n`);
}
