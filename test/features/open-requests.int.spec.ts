import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';

import { Controller, Get, Module } from '@nestjs/common';
import { CommandBus } from '@nestjs/cqrs';
import { WebSocket } from 'ws';

import { SessionEnds } from '../../src/features/accounts/session-ends.service.ts';
import { accountEvents, OpenAccount, Sessions } from '../../src/features/accounts/index.ts';
import { AccountsModule } from '../../src/features/accounts/accounts.module.ts';
import { newSession, sessionIdOf } from '../../src/features/accounts/sessions.ts';
import { apiKeyEvents } from '../../src/features/api-keys/index.ts';
import { ApiKeysModule } from '../../src/features/api-keys/api-keys.module.ts';
import { ApiKeyEnds } from '../../src/features/api-keys/api-key-ends.service.ts';
import { CredentialsModule } from '../../src/features/credentials.module.ts';
import { Clock } from '../../src/kernel/clock.ts';
import { RequireCaller } from '../../src/http/auth/access.ts';
import { HeadWatch } from '../../src/eventsourcing/event-store/log-subscription.ts';
import { type RequestContext, CurrentRequest } from '../../src/http/server/request-context.ts';
import { systemContext } from '../../src/kernel/context/command-context.ts';
import { OpenRequests } from '../../src/http/auth/open-requests.ts';
import { ResponseStreams, type ServerSentEvent, type Streamed } from '../../src/http/server/response-streams.ts';
import { WebSockets } from '../../src/http/server/web-sockets.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import type { TestServer } from '../support/http-server.ts';
import { until } from '../support/until.ts';

/** Ten streams, of which an account may have a fifth. */
const environment = { MOORING_MASTER_KEY: 'ab'.repeat(32), MOORING_STREAMS: '10' };

/** Serves a stream and a wait that end only when their callers leave. */
@Controller('t')
class EndlessController {
  constructor(
    private readonly streams: ResponseStreams,
    private readonly sockets: WebSockets,
  ) {}

  @Get('stream') @RequireCaller() stream(@CurrentRequest() call: RequestContext): Promise<Streamed> {
    return this.streams.events(call, (signal) => Promise.resolve(silence(signal)));
  }

  @Get('lines') @RequireCaller() lines(@CurrentRequest() call: RequestContext): Promise<Streamed> {
    return this.streams.ndjson(call, () => Promise.resolve(silence(call.goneSignal())));
  }

  @Get('text') @RequireCaller() text(@CurrentRequest() call: RequestContext): Promise<Streamed> {
    return this.streams.text(call, () => Promise.resolve(pieces()));
  }

  @Get('socket') @RequireCaller() async socket(@CurrentRequest() call: RequestContext): Promise<void> {
    this.sockets.check(call);
    await this.sockets.accept(call, 1_000);
  }

  @Get('wait') @RequireCaller() wait(@CurrentRequest() call: RequestContext): Promise<void> {
    return new Promise((resolve) => call.onClose(resolve));
  }
}

async function* silence(signal: AbortSignal): AsyncGenerator<ServerSentEvent> {
  yield { id: '1', data: 'begun' };
  await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
}

async function* pieces(): Streamed {
  yield 'a piece';
}

@Module({ controllers: [EndlessController] })
class EndlessModule {}

const features = {
  modules: [AccountsModule, ApiKeysModule, EndlessModule],
  definitions: [...Object.values(accountEvents), ...Object.values(apiKeyEvents)],
  credentials: CredentialsModule,
};

let server: TestServer;
let other: TestServer;
let ann: string;
let eve: string;

async function holder(email: string): Promise<string> {
  const account = { email, password: 'a long enough password', name: 'Ann', role: 'member' as const };
  const { account_id: accountId } = await server.app.get(CommandBus).execute(new OpenAccount(systemContext('test', null), account, null));
  const opened = newSession(new Date());
  await server.app.get(Sessions, { strict: false }).store(accountId, opened);
  return opened.token;
}

beforeAll(async () => {
  server = await startFeatureServer({ ...features, environment });
  other = await startFeatureServer({ ...features, environment: { ...environment, DATABASE_URL: server.databaseUrl } });
  ann = await holder('ann@example.com');
  eve = await holder('eve@example.com');
});
afterAll(async () => {
  await other?.close();
  await server?.close();
});

const newKey = async (json: object = { name: 'one' }, credential = ann) =>
  (await server.request('POST', '/api/v1/keys', { json, credential })).json as { id: string; raw_key: string; expires_at: string };
const revoke = (id: string) => server.request('DELETE', `/api/v1/keys/${id}`, { credential: ann });

/** Opens a stream on its own connection. */
async function open({ url }: TestServer, credential: string) {
  const asked = get(`${url}/t/stream`, { headers: { authorization: `Bearer ${credential}` }, agent: false });
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  let isOpen = true;
  answer
    .on('error', () => undefined)
    .on('close', () => (isOpen = false))
    .resume();
  return { status: answer.statusCode, isOpen: () => isOpen, leave: () => asked.destroy() };
}

const ended = (stream: { isOpen: () => boolean }) => until('the stream ends', () => Promise.resolve(stream.isOpen() ? undefined : true));

describe('a key that ends', () => {
  it('ends its streams and refuses its waiting requests, on every replica; those of other keys continue', async () => {
    const [{ id, raw_key }, kept] = [await newKey(), await newKey({ name: 'two' })];
    const streams = [await open(server, raw_key), await open(other, raw_key)];
    const going = await open(other, kept.raw_key);
    const waiting = [server, other].map((each) => each.request('GET', '/t/wait', { credential: raw_key }));
    await until('all of them are under way', () =>
      Promise.resolve(
        [server, other].every((each) =>
          each.app
            .get(OpenRequests)
            .callers('api_key')
            .some((caller) => caller.id === id),
        )
          ? true
          : undefined,
      ),
    );
    expect((await revoke(id)).status).toBe(204);
    for (const stream of streams) await ended(stream);
    for (const answer of await Promise.all(waiting))
      expect({ status: answer.status, code: answer.json?.code }).toEqual({ status: 401, code: 'unauthenticated' });
    expect(going.isOpen()).toBe(true);
    going.leave();
  });

  it('ends its streams when it expires', async () => {
    const { raw_key, expires_at } = await newKey({ name: 'a day', expires_in_days: 1 });
    const stream = await open(server, raw_key);
    const now = jest.spyOn(server.app.get(Clock, { strict: false }), 'now').mockImplementation(() => new Date(expires_at));
    await ended(stream);
    now.mockRestore();
  });

  it('ends its streams even if a gap in the followed log hid its end', async () => {
    const { id, raw_key } = await newKey();
    const stream = await open(other, raw_key);
    const requests = jest.spyOn(other.app.get(OpenRequests), 'end').mockImplementationOnce(() => undefined);
    await revoke(id);
    await until('the end was passed over', () => Promise.resolve(requests.mock.calls.length > 0 ? true : undefined));
    requests.mockRestore();
    expect(stream.isOpen()).toBe(true);
    other.app.get(ApiKeyEnds, { strict: false }).checkAll();
    await ended(stream);
  });
});

describe('a session that is signed out', () => {
  it('ends its streams and refuses its waiting requests, on every replica; those of other sessions continue', async () => {
    const [session, kept] = [await holder('ida@example.com'), await holder('ben@example.com')];
    const streams = [await open(server, session), await open(other, session)];
    const going = await open(other, kept);
    const waiting = [server, other].map((each) => each.request('GET', '/t/wait', { credential: session }));
    const sessionId = sessionIdOf(session);
    await until('all of them are under way', () => {
      const isWaited = (each: TestServer) =>
        each.app
          .get(OpenRequests)
          .callers('session')
          .some((caller) => caller.sessionId === sessionId);
      return Promise.resolve([server, other].every(isWaited) ? true : undefined);
    });
    expect((await server.request('POST', '/api/auth/logout', { credential: session })).status).toBe(204);
    for (const stream of streams) await ended(stream);
    for (const answer of await Promise.all(waiting))
      expect({ status: answer.status, code: answer.json?.code }).toEqual({ status: 401, code: 'unauthenticated' });
    expect(going.isOpen()).toBe(true);
    going.leave();
  });

  it('ends its streams when it expires', async () => {
    const session = await holder('max@example.com');
    const stream = await open(server, session);
    const inAMonth = new Date(Date.now() + 31 * 86_400_000);
    const now = jest.spyOn(server.app.get(Clock, { strict: false }), 'now').mockImplementation(() => inAMonth);
    await ended(stream);
    now.mockRestore();
  });

  it('ends its streams even if a gap in the followed log hid its end', async () => {
    const session = await holder('gus@example.com');
    const stream = await open(other, session);
    const requests = jest.spyOn(other.app.get(OpenRequests), 'end').mockImplementationOnce(() => undefined);
    await server.request('POST', '/api/auth/logout', { credential: session });
    await until('the end was passed over', () => Promise.resolve(requests.mock.calls.length > 0 ? true : undefined));
    requests.mockRestore();
    expect(stream.isOpen()).toBe(true);
    await until('the session is gone', async () =>
      (await server.request('GET', '/api/auth/me', { credential: session })).status === 401 ? true : undefined,
    );
    other.app.get(SessionEnds, { strict: false }).checkAll();
    await ended(stream);
  });
});

describe('another replica', () => {
  it('gets the end by a notification, without reading the log', async () => {
    const poll = jest.spyOn(HeadWatch.prototype, 'poll').mockResolvedValue(undefined);
    try {
      const { id, raw_key } = await newKey();
      const session = await holder('ned@example.com');
      const streams = [await open(other, raw_key), await open(other, session)];
      await revoke(id);
      await server.request('POST', '/api/auth/logout', { credential: session });
      for (const stream of streams) await ended(stream);
    } finally {
      poll.mockRestore();
    }
  });
});

describe('streams', () => {
  it('are bounded per account and per process, and free their place when they end', async () => {
    const mine = [await open(server, ann), await open(server, ann)];
    const refused = await server.request('GET', '/t/stream', { credential: ann });
    expect({ status: refused.status, code: refused.json.code, detail: refused.json.detail }).toEqual({
      status: 429,
      code: 'rate_limited',
      detail: 'This account has too many streams open.',
    });
    const others = [];
    for (const name of ['one', 'two', 'three', 'four']) {
      const credential = await holder(`${name}@example.com`);
      others.push(await open(server, credential), await open(server, credential));
    }
    expect(others.map(({ status }) => status)).toEqual(others.map(() => 200));
    expect((await server.request('GET', '/t/stream', { credential: eve })).json.detail).toBe('Too many streams are open.');
    mine[0]?.leave();
    const again = await until('there is room again', async () => {
      const stream = await open(server, eve);
      return stream.status === 200 ? stream : undefined;
    });
    for (const stream of [...mine, ...others, again]) stream.leave();
  });

  it('are bounded together, whatever they carry: events, lines, a text, a WebSocket', async () => {
    const mine = [await open(server, ann), await open(server, ann)];
    for (const kind of ['lines', 'text'])
      expect([kind, (await server.request('GET', `/t/${kind}`, { credential: ann })).status]).toEqual([kind, 429]);
    const socket = new WebSocket(`${server.url.replace('http', 'ws')}/t/socket`, { headers: { authorization: `Bearer ${ann}` } });
    const [, refused] = (await once(socket, 'unexpected-response')) as [unknown, IncomingMessage];
    expect(refused.statusCode).toBe(429);
    socket.on('error', () => undefined).terminate();
    for (const stream of mine) stream.leave();
  });
});
