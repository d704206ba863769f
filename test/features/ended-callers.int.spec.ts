import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';

import { CommandBus } from '@nestjs/cqrs';

import { OpenAccount, Sessions } from '../../src/features/accounts/index.ts';
import { newSession } from '../../src/features/accounts/sessions.ts';
import { apiKeyEvents } from '../../src/features/api-keys/index.ts';
import { ApiKeysModule } from '../../src/features/api-keys/api-keys.module.ts';
import { CredentialsModule } from '../../src/features/credentials.module.ts';
import { logEvents } from '../../src/features/logs/index.ts';
import { LogsModule } from '../../src/features/logs/logs.module.ts';
import { conversationEvents } from '../../src/features/messages/index.ts';
import { MessagesModule } from '../../src/features/messages/messages.module.ts';
import { Clock } from '../../src/kernel/clock.ts';
import { EventStore, START } from '../../src/eventsourcing/event-store/event-store.ts';
import { systemContext } from '../../src/kernel/context/command-context.ts';
import { TemplatesModule } from '../../src/features/templates/templates.module.ts';
import { AgentFixture } from '../support/agent-fixture.ts';
import { FaultyRuntimeModule } from '../support/faulty-runtime.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { agentFeatures } from '../support/features.ts';
import type { TestServer } from '../support/http-server.ts';
import { until } from '../support/until.ts';

/** Checks that what is open under a key or a session ends with it, at a replica that did not end it. */

const password = 'canary-password-1';
const environment = { MOORING_MASTER_KEY: 'ab'.repeat(32) };
const features = {
  modules: [
    FaultyRuntimeModule.forTest(() => undefined),
    ...agentFeatures.modules,
    ApiKeysModule,
    LogsModule,
    TemplatesModule,
    MessagesModule,
  ],
  definitions: [...agentFeatures.definitions, ...[apiKeyEvents, logEvents, conversationEvents].flatMap((events) => Object.values(events))],
  credentials: CredentialsModule,
};

let server: TestServer;
let other: TestServer;
let agentId: string;
let accountId: string;
const email = 'ann@example.com';

beforeAll(async () => {
  server = await startFeatureServer({ ...features, environment });
  other = await startFeatureServer({ ...features, environment: { ...environment, DATABASE_URL: server.databaseUrl } });
  const account = { email, password, name: 'Ann', role: 'member' as const };
  ({ account_id: accountId } = await server.app.get(CommandBus).execute(new OpenAccount(systemContext('test', null), account, null)));
  // No saga wakes it, so that a chat with it waits.
  agentId = await new AgentFixture(server).asleep(accountId);
});

afterAll(async () => {
  await other?.close();
  await server?.close();
});

const signIn = async (): Promise<string> =>
  (await server.request('POST', '/api/auth/login', { json: { email, password } })).json.session_token;

interface Open {
  status: number | undefined;
  /** The text that has come, once the response has begun. */
  text: string;
  isOver: boolean;
  /** The time of its end, by `performance.now()`. */
  endedAt: number;
}

/** Sends a request, at the other replica unless another is given, on its own connection. */
function ask(method: string, path: string, credential: string, body?: object, accept = 'application/json', { url } = other): Open {
  const seen: Open = { status: undefined, text: '', isOver: false, endedAt: Infinity };
  const headers = {
    authorization: `Bearer ${credential}`,
    ...(path.includes('/chat')
      ? { 'content-type': 'application/json', accept }
      : path.includes('/wait')
        ? {}
        : { accept: 'text/event-stream' }),
  };
  const asked = request(`${url}${path}`, { method, headers, agent: false });
  const over = () => {
    seen.isOver = true;
    seen.endedAt = Math.min(seen.endedAt, performance.now());
  };
  asked.on('error', over);
  void once(asked, 'response')
    .then(([answer]: IncomingMessage[]) => {
      seen.status = answer?.statusCode;
      answer
        ?.on('error', over)
        .on('close', over)
        .on('data', (chunk: Buffer) => (seen.text += chunk.toString()));
    })
    .catch(over);
  asked.end(body === undefined ? undefined : JSON.stringify(body));
  return seen;
}

/** Returns the number of messages that were accepted so far. */
async function accepted(): Promise<number> {
  let count = 0;
  const filter = { eventClass: 'core' as const, categories: ['conversation'], types: ['MessageAccepted'] };
  for await (const events of server.app.get(EventStore, { strict: false }).readAll(START, filter)) count += events.length;
  return count;
}

/** Opens streams and waits of every kind, and returns them when each is under way. */
async function openAll(credential: string) {
  const path = `/api/v1/agents/${agentId}`;
  const before = await accepted();
  const streams = [
    ask('GET', `/api/agents/${agentId}/logs`, credential),
    ask('GET', `${path}/history`, credential),
    ask('POST', `/api/agents/${agentId}/chat`, credential, { message: 'say it as it comes' }, 'text/event-stream'),
  ];
  const requests = [
    ask('GET', `${path}/wait?status=stopped&timeout=120`, credential),
    ask('POST', `/api/agents/${agentId}/chat`, credential, { message: 'are you there?' }),
  ];
  await until('the streams have begun', () => (streams.every(({ text }) => text !== '') ? true : undefined));
  await until('the messages are accepted', async () => ((await accepted()) === before + 2 ? true : undefined));
  return { streams, requests };
}

async function expectEnds({ streams, requests }: Awaited<ReturnType<typeof openAll>>): Promise<void> {
  await until('all of them have ended', () => ([...streams, ...requests].every(({ isOver }) => isOver) ? true : undefined));
  for (const { status } of streams) expect(status).toBe(200);
  for (const { status, text } of requests) expect([status, JSON.parse(text).code]).toEqual([401, 'unauthenticated']);
}

it('ends logs, histories, waits and chats of a key that is revoked at another replica', async () => {
  const session = await signIn();
  const { id, raw_key } = (await server.request('POST', '/api/v1/keys', { json: { name: 'one' }, credential: session })).json;
  const open = await openAll(raw_key);
  expect((await server.request('DELETE', `/api/v1/keys/${id}`, { credential: session })).status).toBe(204);
  await expectEnds(open);
});

it('ends logs, histories, waits and chats of a session that is signed out at another replica', async () => {
  const session = await signIn();
  const open = await openAll(session);
  expect((await server.request('POST', '/api/auth/logout', { credential: session })).status).toBe(204);
  await expectEnds(open);
});

/** A key or a session, and what ends it. */
interface Ending {
  credential: string;
  end: () => Promise<unknown>;
}

/** Makes sessions without signing in, which few may do in a minute. */
async function newSessions(count: number): Promise<string[]> {
  const sessions = Array.from({ length: count }, () => newSession(new Date()));
  for (const each of sessions) await server.app.get(Sessions, { strict: false }).store(accountId, each);
  return sessions.map(({ token }) => token);
}

/** Makes keys, of which each expires a day after the one before. */
async function newKeys(count: number, credential: string): Promise<{ id: string; raw_key: string; expires_at: string }[]> {
  const keys = [];
  for (let day = 1; day <= count; day++) {
    const made = await server.request('POST', '/api/v1/keys', { json: { name: `until ${day}`, expires_in_days: day }, credential });
    expect(made.status).toBe(201);
    keys.push(made.json);
  }
  return keys;
}

async function revokedKeys(count: number): Promise<Ending[]> {
  const [session = ''] = await newSessions(1);
  const revoke = (id: string) => server.request('DELETE', `/api/v1/keys/${id}`, { credential: session });
  return (await newKeys(count, session)).map(({ id, raw_key }) => ({ credential: raw_key, end: () => revoke(id) }));
}

async function expiredKeys(count: number): Promise<Ending[]> {
  const [session = ''] = await newSessions(1);
  const clocks = [server, other].map(({ app }) => app.get(Clock, { strict: false }));
  return (await newKeys(count, session)).map(({ raw_key, expires_at }) => ({
    credential: raw_key,
    end: async () => clocks.forEach((clock) => jest.spyOn(clock, 'now').mockImplementation(() => new Date(expires_at))),
  }));
}

async function endedSessions(count: number): Promise<Ending[]> {
  const end = (credential: string) => server.request('POST', '/api/auth/logout', { credential });
  return (await newSessions(count)).map((credential) => ({ credential, end: () => end(credential) }));
}

/**
 * Ends the callers one by one, and returns how many ms it took in each case until the caller's streams had ended on every replica. The first
 * time is left out: it may fall right before a poll, while each of the others begins right after one.
 */
async function timesOfEnds(endings: Ending[]): Promise<number[]> {
  const opened = endings.map(({ credential, end }) => {
    const streams = [server, other].map((at) => ask('GET', `/api/agents/${agentId}/logs`, credential, undefined, undefined, at));
    return { streams, end };
  });
  const all = opened.flatMap(({ streams }) => streams);
  await until('the streams have begun', () => (all.every(({ text }) => text !== '') ? true : undefined));
  for (const { status } of all) expect(status).toBe(200);
  const times: number[] = [];
  for (const { streams, end } of opened) {
    const since = performance.now();
    await end();
    await until('its streams have ended', () => (streams.every(({ isOver }) => isOver) ? true : undefined));
    times.push(Math.max(...streams.map(({ endedAt }) => endedAt)) - since);
  }
  return times.slice(1);
}

it.each([
  ['a key is revoked', revokedKeys],
  ['a session is signed out', endedSessions],
  ['a key expires', expiredKeys],
])('ends streams on every replica within a second after %s', async (_, endings) => {
  try {
    // The fastest counts, because a busy machine may hold up any of them, though hardly all.
    expect(Math.min(...(await timesOfEnds(await endings(6))))).toBeLessThan(1_000);
  } finally {
    jest.restoreAllMocks();
  }
});
