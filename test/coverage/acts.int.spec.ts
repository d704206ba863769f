import { CommandBus } from '@nestjs/cqrs';
import { v7 as uuidv7 } from 'uuid';

import { AssignPlan, OpenAccount, TakeSeat } from '../../src/features/accounts/index.ts';
import { agentDecider } from '../../src/features/agents/aggregate/agents.decider.ts';
import { apiKeyDecider } from '../../src/features/api-keys/api-keys.decider.ts';
import { AppModule, eventDefinitions } from '../../src/app.module.ts';
import { nextStep } from '../../src/features/deployments/containers/next-step.rules.ts';
import { Database } from '../../src/postgres/database/database.ts';
import { Aggregates } from '../../src/eventsourcing/aggregates/aggregates.ts';
import { EventStore, START, type StoredEvent } from '../../src/eventsourcing/event-store/event-store.ts';
import { systemContext } from '../../src/kernel/context/command-context.ts';
import { Sagas } from '../../src/eventsourcing/sagas/saga.ts';
import { DurableSagas } from '../../src/eventsourcing/sagas/durable-sagas.ts';
import { deploying, later, restarting, starting, stateAfter, stopping, waking } from '../support/agents.ts';
import { DesktopContainers } from '../support/computer-containers.ts';
import { startTestServer, type TestServer } from '../support/http-server.ts';
import { FakeRfbServer } from '../support/fake-rfb-server.ts';
import { until } from '../support/until.ts';
import type { Act, World } from './act.ts';
import { acts } from './acts.ts';
import { timers } from './timers.ts';

/** Checks that everything that a caller or a timer does is an event that names who did it. */

const password = 'canary-password-1';
const environment = {
  MOORING_RUNTIME: 'local',
  MOORING_OPEN_REGISTRATION: 'true',
  MOORING_DEEP_SLEEP_AFTER: '1',
  MOORING_SAMPLE_AGENT: 'off',
};
let server: TestServer;
let world: World;
let desktops: DesktopContainers;

beforeAll(async () => {
  server = await startTestServer((config) => ({ imports: [AppModule.forRoot(config, { allowUnsafeDatabase: true })] }), environment);
  const commands = server.app.get(CommandBus);
  const root = { email: 'root@example.com', password, name: 'Root', role: 'admin' as const };
  const { account_id: accountId } = await commands.execute(new OpenAccount(systemContext('test', null), root, null));
  const plan = { name: 'first', seats: 100, paymentMethod: true };
  await commands.execute(new AssignPlan(systemContext('test', accountId), accountId, plan));
  const ask: World['ask'] = (method, path, options) => server.request(method, path, options);
  const { json } = await ask('POST', '/api/auth/login', { json: { email: root.email, password } });
  const session = json.session_token as string;
  const { raw_key: key, id: keyId } = (await ask('POST', '/api/v1/keys', { credential: session, json: { name: 'all' } })).json;
  const made = await ask('POST', '/api/agents', {
    credential: key,
    json: { name: 'first', templateId: 'hello' },
    headers: { prefer: 'wait=60' },
  });
  expect(made).toMatchObject({ status: 201, json: { status: 'active' } });
  desktops = new DesktopContainers(server);
  await desktops.serve(new FakeRfbServer({ width: 1_280, height: 800 }));
  world = { session, key, keyId, accountId, agentId: made.json.agent_id as string, ask };
});
afterAll(async () => {
  // The agents are deleted because their processes would outlive the server.
  const { json: agents } = await world.ask('GET', '/api/v1/agents?limit=200', { credential: world.key });
  for (const { agent_id } of agents)
    await world.ask('DELETE', `/api/v1/agents/${agent_id}`, { credential: world.key, headers: { prefer: 'wait=30' } });
  await desktops.close();
  await server.close();
});

async function events(wanted: (event: StoredEvent) => boolean): Promise<StoredEvent[]> {
  const found: StoredEvent[] = [];
  for await (const batch of server.app.get(EventStore, { strict: false }).readAll(START, { eventClass: 'core' }))
    found.push(...batch.filter(wanted));
  return found;
}

async function drive(
  { route, method = route.slice(0, route.indexOf(' ')), path, json, body, by, before, status, leaves, mayLeave = [] }: Act,
  made: string,
): Promise<string> {
  await before?.(world);
  const requestId = `act-${uuidv7()}`;
  const credential = { key: world.key, session: world.session, webhook: undefined, anonymous: undefined }[by];
  const isSignIn = route === 'POST /api/auth/login';
  const answer = await world.ask(method, path(world).replace(':made', made), {
    ...(credential === undefined || isSignIn ? {} : { credential }),
    ...(json === undefined ? {} : { json: json(world) }),
    ...(body === undefined ? {} : { body: body.content }),
    headers: { 'x-request-id': requestId, ...(body === undefined ? {} : { 'content-type': body.type }) },
  });
  expect([route, answer.status]).toEqual([route, status]);
  const left = await events(({ metadata }) => metadata.request_id === requestId);
  const types = new Set(left.map(({ type }) => type));
  expect({ route, left: [...types].filter((type) => !mayLeave.includes(type)).toSorted() }).toEqual({ route, left: leaves.toSorted() });
  for (const event of left) expect({ route, ...said(event) }).toEqual({ route, by, id: true, account: true });
  return ((answer.json?.id ?? answer.json?.command_id) as string | undefined) ?? made;
}

/** Runs the work while rebuilds are held back: a rebuild first records that it begins, and waits here for the table. */
async function withoutRebuilds<T>(work: () => Promise<T>): Promise<T> {
  return server.app.get(Database, { strict: false }).transaction(async (client) => {
    await client.query('lock table projection_rebuilds in share mode');
    return work();
  });
}

/** Returns the actor that the event names, whether its id is that of the actual one, and whether the event has an account. */
function said({ metadata: { actor, account_id } }: StoredEvent): object {
  const by = { api_key: 'key', session: 'session', anonymous: 'anonymous', system: 'system', webhook: 'webhook', viewer: 'viewer' }[
    actor.kind
  ];
  const id = { key: world.keyId, session: world.accountId, webhook: world.agentId, anonymous: 'anonymous' }[by];
  return { by, id: actor.id === id && actor.name !== '', account: account_id !== null };
}

describe('every route that changes something', () => {
  it('appends them, with the actor', async () => {
    let made = '';
    for (const act of acts) made = act.holdsRebuilds ? await withoutRebuilds(() => drive(act, made)) : await drive(act, made);
  });
});

describe('every timer', () => {
  const late = later(1_000_000);
  const rules = { canFreeze: true, deepSleepAfterSeconds: 1, startTimeoutSeconds: 60 };

  /** Waits for the event on the stream, and checks that the saga's entry in `timers` names it. */
  async function left(saga: string, timer: string, stream: string, fits: (event: StoredEvent) => boolean): Promise<StoredEvent> {
    const event = await until(`${timer} shows`, async () => (await events((each) => each.stream === stream && fits(each)))[0]);
    expect(timers[saga]?.[timer]).toContain(event.type);
    expect(event.metadata).toMatchObject({
      actor: { kind: 'system', id: saga, name: saga },
      account_id: world.accountId,
      request_id: null,
    });
    return event;
  }

  it('belongs to a saga that declares its events', () => {
    expect(Object.keys(timers).toSorted()).toEqual(Object.keys(server.app.get(DurableSagas, { strict: false }).stats()).toSorted());
    const known = new Set(eventDefinitions.map(({ type }) => type));
    for (const type of Object.values(timers).flatMap((saga) => Object.values(saga).flat())) expect(known).toContain(type);
  });

  it.each([
    ['a deployment takes too long', deploying],
    ['a start, a restart or a wake takes too long', starting],
    ['a start, a restart or a wake takes too long', restarting],
    ['a start, a restart or a wake takes too long', waking],
    ['a stop takes too long: it is killed', stopping],
  ])('of a transition: %s', (timer, life) => {
    const agent = stateAfter(...life);
    const step = nextStep(
      agent,
      { containers: [], volume: true, held: false, abandonedBy: null, lastActiveAt: null, started: null },
      rules,
      late,
    );
    if (step.do !== 'record') throw new Error(`${step.do} leaves no event`);
    expect(timers.deployments?.[timer]).toEqual(agentDecider.decide(step.record, agent, late).map(({ type }) => type));
  });

  it('of an idle agent, and of one that sleeps for long', async () => {
    const body = { name: 'idle', templateId: 'hello' };
    const made = await world.ask('POST', '/api/agents', { credential: world.key, json: body, headers: { prefer: 'wait=60' } });
    const stream = `agent-${made.json.agent_id}`;
    const shorter = { type: 'ConfigureAgent' as const, accountId: world.accountId, changes: { idle_ttl_seconds: 1 } };
    await server.app.get(Aggregates, { strict: false }).execute(stream, agentDecider, shorter, systemContext('test', world.accountId));
    const active = (await events((event) => event.stream === stream && event.type === 'DeploymentSucceeded'))[0];
    const idle = await left('deployments', 'an idle agent sleeps', stream, ({ data }) => data.reason === 'idle');
    expect(idle.metadata.causation_id).toBe(active?.id);
    const slept = await left('deployments', 'an idle agent sleeps', stream, ({ type }) => type === 'AgentSlept');
    expect(slept.metadata.causation_id).toBe(idle.id);
    const deep = await left('deployments', 'an agent that sleeps for long sleeps deeper', stream, ({ data }) => data.reason === 'deep');
    expect(deep.metadata.causation_id).toBe(slept.id);
  });

  it('of a key', async () => {
    const stream = `apiKey-${uuidv7()}`;
    const command = { type: 'IssueApiKey' as const, accountId: world.accountId, keyId: stream.slice(7), name: 'short' };
    const more = { prefix: 'mk_short', sha256: '0'.repeat(64), scopes: [], expiresInDays: 0.2 / 86_400 };
    const context = systemContext('test', world.accountId);
    await server.app.get(Aggregates, { strict: false }).execute(stream, apiKeyDecider, { ...command, ...more }, context);
    await left('api-keys', 'a key comes to its end', stream, ({ type }) => type === 'ApiKeyExpired');
  });

  it('of a seat', async () => {
    const agentId = uuidv7();
    const { accountId } = world;
    await server.app.get(CommandBus).execute(new TakeSeat(systemContext('test', accountId), accountId, agentId, null));
    server.app.get(Sagas, { strict: false }).wake('seats', `${agentId} ${accountId} 2026-01-01T00:00:00.000Z`);
    const released = ({ type, data }: StoredEvent) => type === 'SeatReleased' && data.agent_id === agentId;
    await left('seats', 'no agent came for a seat', `account-${accountId}`, released);
  });
});
