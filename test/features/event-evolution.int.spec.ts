import { Client } from 'pg';
import { v7 as uuidv7 } from 'uuid';

import { agentDecider } from '../../src/features/agents/aggregate/agents.decider.ts';
import { agentEvents } from '../../src/features/agents/index.ts';
import { Database } from '../../src/postgres/database/database.ts';
import { openDatabase } from '../../src/postgres/database/open-database.ts';
import { EventCatalogue } from '../../src/eventsourcing/event-store/event-catalogue.ts';
import type { JsonObject } from '../../src/eventsourcing/event-store/event-definition.ts';
import { PostgresEventStore } from '../../src/eventsourcing/event-store/postgres/postgres-event-store.ts';
import { AgentFixture } from '../support/agent-fixture.ts';
import { FaultyRuntimeModule } from '../support/faulty-runtime.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { runningFeatures } from '../support/features.ts';
import type { TestServer } from '../support/http-server.ts';
import { openAggregates } from '../support/log.ts';
import { until } from '../support/until.ts';

/** The values and messages of a release that wrote version 1 of DeploymentFailed. */
const recorded = [
  { step: 'deadline', says: { step: null, kind: 'timeout' }, message: 'Deployment failed: too bad' },
  { step: 'engine', says: { step: null, kind: 'runtime' }, message: 'Deployment failed: too bad' },
  { step: 'ready', says: { step: 'start', kind: 'timeout' }, message: 'Deployment failed at start: too bad' },
  { step: 'start', says: { step: 'start', kind: 'deployment' }, message: 'Deployment failed at start: too bad' },
  { step: 'image', says: { step: 'image', kind: 'deployment' }, message: 'Deployment failed at image: too bad' },
];

let server: TestServer;
let agents: AgentFixture;

beforeAll(async () => {
  server = await startFeatureServer(runningFeatures(FaultyRuntimeModule.forTest(() => undefined)));
  agents = new AgentFixture(server);
  await agents.account('acme', 10);
});
afterAll(() => server?.close());

const call = async (method: string, path: string, json?: unknown) => server.request(method, path, { credential: 'mk_acme', json });

/** Appends events to a stream as an older release stored them, bypassing today's catalogue. */
async function storedByAnOlderRelease(stream: string, events: { type: string; version: number; data: JsonObject }[]): Promise<void> {
  const owner = new Client({ connectionString: server.databaseUrl });
  await owner.connect();
  const metadata = { actor: { kind: 'system', id: 'deployments', name: 'deployments' }, account_id: 'acme' };
  const none = { request_id: null, causation_id: null, ip: null };
  await owner.query('begin');
  await owner.query('select pg_advisory_xact_lock(5040, 1)');
  for (const { type, version, data } of events)
    await owner.query(
      `insert into es_event (position, stream, version, id, type, schema_version, data, metadata, size, at)
       select (select coalesce(max(position), 0) + 1 from es_event), $1, (select coalesce(max(version), -1) + 1 from es_event where stream = $1),
              $2, $3, $4, $5, $6, 100, clock_timestamp()`,
      [stream, uuidv7(), type, version, JSON.stringify(data), JSON.stringify({ ...metadata, ...none })],
    );
  await owner.query(`select pg_notify('mooring_events', 'core ' || (select max(position) from es_event))`);
  await owner.query('commit');
  await owner.end();
}

/** Makes an agent whose deployment failed under a release that wrote version 1. */
async function failedLongAgo(step: string): Promise<{ agentId: string; deployment_id: string }> {
  const agentId = await agents.created('acme', { image: 'auto', image_name: null, template_id: 'hello' });
  const deployment_id = uuidv7();
  const request = { generation: 1, source: 'template', image_name: null, repo_url: null, branch: null, template_id: 'hello' };
  await storedByAnOlderRelease(`agent-${agentId}`, [
    {
      type: 'DeploymentRequested',
      version: 1,
      data: { deployment_id, ...request, deadline_at: new Date(Date.now() + 60_000).toISOString() },
    },
    { type: 'DeploymentFailed', version: 1, data: { deployment_id, step, reason: 'too bad' } },
  ]);
  await until('the agent shows its failure', async () => {
    const { json } = await call('GET', `/api/v1/agents/${agentId}`);
    return json.status === 'error' ? true : undefined;
  });
  return { agentId, deployment_id };
}

describe('A log that an older release wrote', () => {
  it.each(recorded)('is read in today\'s form: a deployment that failed at "$step"', async ({ step, says, message }) => {
    const { agentId, deployment_id } = await failedLongAgo(step);
    expect((await agents.load(agentId)).state).toMatchObject({ status: 'error', failure: 'deployment', message });
    const { json: history } = await call('GET', `/api/v1/agents/${agentId}/history?type=DeploymentFailed`);
    expect(history).toMatchObject([{ type: 'DeploymentFailed', version: 2, data: { deployment_id, ...says, reason: 'too bad' } }]);
    const deployments = await until('the deployment shows its end', async () => {
      const { json } = await call('GET', `/api/v1/agents/${agentId}/deployments`);
      return json[0]?.status === 'failed' ? json : undefined;
    });
    expect(deployments).toMatchObject([{ id: deployment_id, status: 'failed', message: 'too bad' }]);
  });

  it('continues: an agent that failed then is deployed now by the saga', async () => {
    const { agentId } = await failedLongAgo('deadline');
    const { status } = await call('POST', `/api/v1/agents/${agentId}/deploy`, {});
    expect(status).toBe(202);
    const { json } = await call('GET', `/api/v1/agents/${agentId}/wait?status=active&timeout=20`);
    expect(json.status).toBe('active');
  });
});

describe('A program that is older than the log', () => {
  let database: Database;
  let store: PostgresEventStore;

  beforeAll(async () => {
    database = await openDatabase({ url: server.databaseUrl, allowUnsafe: true });
    const older = Object.values(agentEvents).map((definition) => ({ ...definition, version: 1 }));
    store = new PostgresEventStore(database, new EventCatalogue(older));
  });
  afterAll(async () => {
    await store?.close();
    await database?.close();
  });

  it('stops at an event that it can not read, and writes nothing after it', async () => {
    const agentId = await agents.created('acme');
    await agents.says(agentId, {
      type: 'DeployAgent',
      accountId: 'acme',
      deadlineAt: new Date(Date.now() + 60_000).toISOString(),
      deploymentId: uuidv7(),
      source: 'docker',
      imageName: 'nginx:1',
      repoUrl: null,
      branch: null,
      templateId: null,
    });
    await agents.says(agentId, { type: 'RecordFailure', kind: 'timeout', reason: 'too late' });
    const before = await agents.events(agentId);
    expect(before.at(-1)).toMatchObject({ type: 'DeploymentFailed', schemaVersion: 2 });
    const catalogue = new EventCatalogue(Object.values(agentEvents).map((definition) => ({ ...definition, version: 1 })));
    const older = openAggregates(database, store, catalogue).aggregates;
    await expect(older.load(`agent-${agentId}`, agentDecider)).rejects.toThrow(
      /DeploymentFailed version 2.*knows version 1.*newer release/,
    );
    const everything = async () => {
      for await (const batch of store.readAll('0'.repeat(20), { eventClass: 'core', categories: ['agent'] })) void batch;
    };
    await expect(everything()).rejects.toThrow(/written by a newer release/);
    expect(await agents.events(agentId)).toEqual(before);
  });
});
