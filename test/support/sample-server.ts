import { connect } from 'node:net';

import { Body, Controller, Get, HttpCode, Module, Param, Post, Put, Query, Req, type Type as NestType } from '@nestjs/common';
import { Type } from 'class-transformer';
import { IsArray, IsInt, IsOptional, IsString, MaxLength, ValidateNested } from 'class-validator';

import type { Environment } from '../../src/kernel/config/setting-reader.ts';
import { CryptoModule } from '../../src/crypto/crypto.module.ts';
import { Public, RequireAdmin, RequireCaller, RequireScope, RequireSession } from '../../src/http/auth/access.ts';
import { type RequestContext, CurrentRequest } from '../../src/http/server/request-context.ts';
import { RawBody } from '../../src/http/server/body.ts';
import type { Caller, Scope } from '../../src/kernel/context/caller.ts';
import { CredentialVerifier } from '../../src/http/auth/credential-verifier.ts';
import { HttpModule } from '../../src/http/http.module.ts';
import { Idempotent } from '../../src/http/idempotency/idempotency.interceptor.ts';
import { ReadsModel } from '../../src/http/responses/reads-model.ts';
import { IntegerQuery } from '../../src/http/requests/validation.ts';
import { noteWritten } from '../../src/kernel/context/command-context.ts';
import { START } from '../../src/eventsourcing/event-store/event-store.ts';
import { AccountPositions, type AccountPosition } from '../../src/eventsourcing/log/account-positions.ts';
import { LogFollower } from '../../src/eventsourcing/log/log-follower.ts';
import { ReadModels } from '../../src/eventsourcing/projections/projection.ts';
import { ProblemError } from '../../src/kernel/errors/problem-error.ts';
import { RuntimeUnavailable } from '../../src/runtime/runtime.errors.ts';
import { type TestResponse, startTestServer, type TestServer } from './http-server.ts';
import { testDatabase } from './test-database.ts';

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

/** The calls that the handlers received; a test can hold or fail one of them. */
export const seen = { made: [] as (string | null)[], gate: Promise.resolve(), failNext: null as Error | null };

@Controller('t')
class SampleController {
  @Get('open') @Public() open() {
    return { open: true };
  }
  @Get('caller') @RequireCaller() caller(@CurrentRequest() { caller }: RequestContext) {
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
  @Post('scoped') @RequireScope('manage') scoped(@Body() thing: Thing) {
    return thing;
  }
  @Post('greeting') @Public() greet(@Body() thing: Thing) {
    return { name: thing.name.length };
  }
  @Post('once') @Idempotent() @RequireCaller() async once(@Body() thing: Thing, @CurrentRequest() { seed, context }: RequestContext) {
    seen.made.push(seed);
    await seen.gate;
    const failure = seen.failNext;
    seen.failNext = null;
    if (failure) throw failure;
    noteWritten(context, '00000000000000000042');
    return { name: thing.name, seed, secret: 'canary-of-the-answer' };
  }
  @Get('list') @RequireCaller() list(@Query() paging: Paging) {
    return { limit: paging.limit ?? null };
  }
  @Get('model') @ReadsModel('things') @RequireCaller() model() {
    return {};
  }
  @Get('wait') @Public() wait(@CurrentRequest() call: RequestContext) {
    return { seconds: call.wait };
  }
  @Get('endless') @Public() endless(@CurrentRequest() call: RequestContext) {
    call.beginResponse(200, [], false).write('the beginning');
  }
  @Get('missing') @RequireCaller() missing() {
    throw new ProblemError('agent_not_found', 'There is no such agent.');
  }
  @Get('fails/:how') @Public() fails(@Param('how') how: string) {
    if (how === 'engine') throw new RuntimeUnavailable(new Error('canary inside'));
    if (how === 'missing') throw new ProblemError('agent_not_found', 'There is no such agent.');
    if (how === 'refusal') throw new ProblemError('seat_limit', 'All 3 seats are taken.', { members: { seats: 3 } });
    throw new Error('canary inside');
  }
  @Put('raw') @Public() @RawBody('buffer', 10) @HttpCode(200) raw(@Req() request: { body: Buffer }) {
    return { bytes: request.body.toString('hex') };
  }
}

export const grants: Record<string, Partial<Caller> & { scopes: Set<Scope> }> = {
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

export const reached: string[] = [];
/** The last events of each account, which a test sets because this server has no log. */
export const positions = new Map<string, AccountPosition>();
const noLog = { catchUpToHead: () => Promise.resolve(START) };
const knownPositions = { of: (accountId: string) => positions.get(accountId) ?? { last: START, written: START } };

class NotedReadModels extends ReadModels {
  filterOf() {
    return { eventClass: 'core' as const };
  }
  async waitFor(projection: string, position: string) {
    reached.push(`${projection} ${position}`);
    if (position === '9'.repeat(20)) throw new ProblemError('read_model_behind', 'The read model is behind.');
  }
  async waitIfRunning(projection: string, position: string) {
    await this.waitFor(projection, position).catch(() => undefined);
  }
  waitUntilFilled() {
    return Promise.resolve();
  }
  progress() {
    return Promise.resolve([]);
  }
}

@Module({})
class Parts {}

/** Starts a server with the routes above, or with another controller, and credentials whose names say what they allow. */
export function startSampleServer(controller: NestType = SampleController, environment: Environment = {}): Promise<TestServer> {
  const parts = () => ({
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
          { provide: LogFollower, useValue: noLog },
          { provide: AccountPositions, useValue: knownPositions },
        ],
        exports: [CredentialVerifier, ReadModels, LogFollower, AccountPositions],
      },
    ],
    controllers: [controller],
  });
  return startTestServer(parts, environment);
}

export function expectProblem(answer: TestResponse, status: number, code: string) {
  expect({ status: answer.status, code: answer.json?.code }).toEqual({ status, code });
  expect(answer.headers.get('content-type')).toContain('application/problem+json');
  expect(answer.json).toMatchObject({ type: `urn:mooring:problem:${code}`, title: expect.any(String), status, detail: expect.any(String) });
  expect(answer.json.request_id).toBe(answer.headers.get('x-request-id'));
  expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
}

/** Sends the text unchanged and returns the whole response. */
export function sendRaw(url: string, text: string): Promise<string> {
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

export function chunked(url: string, target: string, bytes: number, credential = 'x-api-key: mk_none\r\n'): Promise<string> {
  const [method, path] = target.split(' ');
  const head = `${method} ${path} HTTP/1.1\r\nhost: x\r\n${credential}content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n`;
  return sendRaw(url, `${head}${bytes.toString(16)}\r\n${'x'.repeat(bytes)}\r\n0\r\n\r\n`);
}
