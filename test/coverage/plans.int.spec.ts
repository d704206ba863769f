import { readFileSync } from 'node:fs';

import { CommandBus } from '@nestjs/cqrs';
import { Client } from 'pg';

import { AssignPlan, OpenAccount } from '../../src/features/accounts/index.ts';
import { AppModule, eventDefinitions } from '../../src/app.module.ts';
import { EventCatalogue } from '../../src/eventsourcing/event-store/event-catalogue.ts';
import { EventStore } from '../../src/eventsourcing/event-store/event-store.ts';
import { systemContext } from '../../src/kernel/context/command-context.ts';
import { ReadModels } from '../../src/eventsourcing/projections/projection.ts';
import { DesktopContainers } from '../support/computer-containers.ts';
import { startTestServer, type TestServer } from '../support/http-server.ts';
import { foldedProjections } from '../support/read-models.ts';
import { FakeRfbServer } from '../support/fake-rfb-server.ts';
import { fillTables, isWhole, readsOf } from './plans.ts';
import { Statements, type Statement } from './statements.ts';

/** Checks that every statement of a GET route has a plan without a scan of a whole table when the tables hold many rows. */

const ROWS = Number(process.env.PLANS_ROWS ?? 60_000);
/** The timeout of the test: filling the tables takes a fraction of a millisecond a row. */
const TIMEOUT_MS = Math.max(240_000, ROWS * 3);
const environment = { MOORING_RUNTIME: 'local', MOORING_SAMPLE_AGENT: 'off' };
const account = { email: 'plans@example.com', password: 'canary-password-1', name: 'Plans', role: 'admin' as const };

const routes = readFileSync(new URL('routes.txt', import.meta.url), 'utf8')
  .trim()
  .split('\n')
  .map((line) => /^GET +(\S+) {2}(.*)$/.exec(line))
  .flatMap((found) => (found === null ? [] : [{ path: found[1] as string, access: found[2] as string }]))
  // A terminal is a WebSocket, and reads no rows; nor does the page of a viewer, nor a handshake, which the agent answers.
  .filter(({ path }) => !path.endsWith('/terminal') && !path.startsWith('/viewer/') && path !== '/api/webhooks/:agentId');

let server: TestServer;
let isClosed = false;
let desktops: DesktopContainers;
let ids: Record<string, string>;
let statements: Statements;
let key: string;
let session: string;

beforeAll(async () => {
  server = await startTestServer((config) => ({ imports: [AppModule.forRoot(config, { allowUnsafeDatabase: true })] }), environment);
  const commands = server.app.get(CommandBus);
  const { account_id: accountId } = await commands.execute(new OpenAccount(systemContext('test', null), account, null));
  await commands.execute(new AssignPlan(systemContext('test', accountId), accountId, { name: 'first', seats: 10, paymentMethod: true }));
  session = (await server.request('POST', '/api/auth/login', { json: { email: account.email, password: account.password } })).json
    .session_token;
  const issued = (await server.request('POST', '/api/v1/keys', { credential: session, json: { name: 'all' } })).json;
  key = issued.raw_key;
  const asked = { credential: key, headers: { prefer: 'wait=60' } };
  const agent = await server.request('POST', '/api/agents', { ...asked, json: { name: 'first', templateId: 'hello' } });
  expect(agent).toMatchObject({ status: 201, json: { status: 'active' } });
  const agentId = agent.json.agent_id as string;
  await server.request('POST', `/api/v1/agents/${agentId}/env`, { credential: key, json: { key: 'TOKEN', value: 'x', is_secret: true } });
  const chat = await server.request('POST', `/api/agents/${agentId}/chat`, { credential: key, json: { message: 'hello' } });
  const command = await server.request('POST', `/api/agents/${agentId}/commands`, { credential: key, json: { command: ['true'] } });
  const [deployment] = (await server.request('GET', `/api/v1/agents/${agentId}/deployments`, { credential: key })).json;
  const subscription = await server.request('POST', '/api/v1/subscriptions', {
    credential: key,
    json: { url: 'https://receiver.invalid/events' },
  });
  desktops = new DesktopContainers(server);
  await desktops.serve(new FakeRfbServer({ width: 1_280, height: 800 }));
  const computerId = await usedComputer();
  ids = {
    agentId,
    computerId,
    subscriptionId: subscription.json.id,
    conversationId: chat.json.conversation_id,
    commandId: command.json.command_id,
    deploymentId: deployment.id ?? deployment.deployment_id,
    keyId: issued.id,
    accountId,
  };
  statements = new Statements(server.app.getHttpServer());
});

afterAll(async () => {
  statements?.stop();
  if (!isClosed) await desktops?.close();
  await server?.close().catch((error: unknown) => {
    if (!isClosed) throw error;
  });
});

/** Makes a computer that was awake and is so again, and on which somebody acted. */
async function usedComputer(): Promise<string> {
  const made = await server.request('POST', '/api/v1/computers', { credential: key, json: { end_user_id: 'user-1' } });
  const computerId = made.json.computer_id as string;
  for (const action of ['actions', 'sleep', 'wake']) {
    const json = action === 'actions' ? { action: 'key', text: 'Return' } : undefined;
    expect(await server.request('POST', `/api/v1/computers/${computerId}/${action}`, { credential: key, json })).toMatchObject({
      status: 200,
    });
  }
  return computerId;
}

/** Returns the queries that are sent to a route beside the bare address: every filter, and combinations of them. */
function queriesOf(path: string): string[] {
  const since = 'since=2026-01-01';
  const both = `${since}&until=2999-01-01`;
  const filters: Record<string, string[]> = {
    audit: [
      'type=VariableSet',
      `actor=${ids.keyId}`,
      'actor=system',
      `agent_id=${ids.agentId}`,
      `computer_id=${ids.computerId}`,
      `account_id=${ids.accountId}`,
      both,
      'type=AgentConfigured,VariableSet',
      `type=VariableSet&actor=system&agent_id=${ids.agentId}&${both}`,
      `type=VariableSet&${since}`,
      `agent_id=${ids.agentId}&actor=system`,
    ].flatMap((query) => [query, `${query}&order=desc`]),
    logs: ['q=nothing-like-it', 'level=error', both, `q=x&level=info&${both}`],
    computers: ['limit=2', 'end_user_id=user-1', 'status=awake', 'status=awake&end_user_id=user-1'],
    usage: ['from=2026-01-01', 'granularity=month', 'granularity=total', 'end_user_id=user-1', `computer_id=${ids.computerId}`],
    sessions: ['limit=2', 'status=pending'],
    history: ['type=VariableSet', 'actor=system', both, 'after=2'],
    events: ['limit=200', `stream=agent-${ids.agentId}`, 'type=VariableSet', both],
    agents: path.startsWith('/api/v1/') ? ['limit=2'] : [],
    wait: ['status=active'],
    state: ['revision=2', 'at=2999-01-01T00:00:00Z'],
    diff: ['from=1&to=3'],
    download: ['path=.'],
    files: ['path=.'],
  };
  const required = ['wait', 'state', 'diff', 'download', 'files'];
  const name = path.split('/').at(-1) as string;
  return [...(required.includes(name) ? [] : ['']), ...(filters[name] ?? [])];
}

/** The requests that failed, whose statements were therefore not seen. */
const refused: string[] = [];

async function drive({ path, access }: (typeof routes)[number]): Promise<void> {
  const address = path.replaceAll(/:(\w+)/g, (_, name: string) => ids[name] ?? `nothing is known for :${name}`);
  const credentials = access.startsWith('scope')
    ? [key, ...(path === '/api/v1/audit' ? [session] : [])]
    : [access === 'public' ? undefined : session];
  for (const query of queriesOf(path))
    for (const credential of credentials) {
      const answer = await server.request(
        'GET',
        `${address}${query === '' ? '' : `?${query}`}`,
        credential === undefined ? {} : { credential },
      );
      if (answer.status !== 200) refused.push(`${path}?${query}: ${answer.status} ${answer.text}`);
    }
}

async function settled(): Promise<void> {
  const store = server.app.get(EventStore, { strict: false });
  const readModels = server.app.get(ReadModels, { strict: false });
  for (const { name, filter } of foldedProjections(new EventCatalogue(eventDefinitions)))
    await readModels.waitFor(name, await store.head(filter.eventClass), 90_000);
}

it(
  'reads by indexes, whichever route and whichever filters are asked',
  async () => {
    await settled();
    for (const route of routes) await statements.during(route.path, () => drive(route));
    expect(refused).toEqual([]);
    statements.stop();
    // The processes of the computer and the agent end, but their rows stay, to be copied.
    const slept = await server.request('POST', `/api/v1/computers/${ids.computerId}/sleep`, { credential: key });
    expect(slept.json).toMatchObject({ status: 'asleep' });
    await desktops.close();
    const stopped = await server.request('POST', `/api/agents/${ids.agentId}/stop`, { credential: key, headers: { prefer: 'wait=30' } });
    expect(stopped.json).toMatchObject({ status: 'stopped' });
    const seen: Statement[] = statements.seen;
    expect(new Set(seen.map(({ route }) => route)).size).toBeGreaterThan(routes.length / 2);
    const client = new Client({ connectionString: server.databaseUrl });
    // The service is closed before the rows are copied, so that it does not act on them.
    isClosed = true;
    await server.app.close();
    await client.connect();
    try {
      await fillTables(server.databaseUrl, ROWS);
      const { rows: filled } = await client.query<{ rows: string }>(
        "select reltuples as rows from pg_class where relname like 'agents\\_v%' and relkind = 'r'",
      );
      expect(Number(filled[0]?.rows)).toBeGreaterThan(ROWS / 2);
      const scans: string[] = [];
      const plans = new Set<string>();
      for (const statement of seen) {
        const reads = await readsOf(client, statement);
        plans.add(`${statement.route}: ${reads.map(({ table, how }) => `${table} by ${how}`).join(', ')}`);
        for (const { table } of reads.filter(isWhole)) scans.push(`${statement.route} scans ${table}: ${statement.text}`);
      }
      if (process.env.PLANS_ROWS !== undefined) process.stdout.write(`${[...plans].toSorted().join('\n')}\n`);
      expect([...new Set(scans)]).toEqual([]);
    } finally {
      await client.end();
    }
  },
  TIMEOUT_MS,
);
