import { Module } from '@nestjs/common';
import { Client } from 'pg';
import { v7 as uuidv7 } from 'uuid';

import { AgentsModule } from '../../src/features/agents/agents.module.ts';
import { BuildLogResponses } from '../../src/features/deployments/build-log-responses.service.ts';
import {
  deploymentsProjection,
  FindDeploymentHandler,
  ListDeploymentsHandler,
} from '../../src/features/deployments/deployments.projection.ts';
import { DeploymentRecordsController } from '../../src/features/deployments/deployment-records.controller.ts';
import { logEvents } from '../../src/features/logs/index.ts';
import { LogsModule } from '../../src/features/logs/logs.module.ts';
import { EventStore } from '../../src/eventsourcing/event-store/event-store.ts';
import { systemContext } from '../../src/kernel/context/command-context.ts';
import { Projections } from '../../src/eventsourcing/projections/projections.ts';
import { AgentFixture } from '../support/agent-fixture.ts';
import { FaultyRuntimeModule } from '../support/faulty-runtime.ts';
import { startFeatureServer, type Features } from '../support/feature-server.ts';
import { agentFeatures } from '../support/features.ts';
import type { TestResponse, TestServer } from '../support/http-server.ts';

/** Serves the reads of deployments without the saga that carries them out; a test sends the commands that the saga would send. */
@Module({
  imports: [AgentsModule],
  controllers: [DeploymentRecordsController],
  providers: [BuildLogResponses, FindDeploymentHandler, ListDeploymentsHandler],
})
class DeploymentReadsModule {
  constructor(projections: Projections) {
    projections.register(deploymentsProjection);
  }
}

const features: Features = {
  modules: [FaultyRuntimeModule.forTest(() => undefined), ...agentFeatures.modules, LogsModule, DeploymentReadsModule],
  definitions: [...agentFeatures.definitions, ...Object.values(logEvents)],
};

let one: TestServer;
let two: TestServer;
let bed: AgentFixture;

beforeAll(async () => {
  const environment = { MOORING_MASTER_KEY: 'ab'.repeat(32) };
  one = await startFeatureServer({ ...features, environment });
  two = await startFeatureServer({ ...features, environment: { ...environment, DATABASE_URL: one.databaseUrl } });
  bed = new AgentFixture(one);
  await bed.account('acme', 100);
  await bed.account('other', 100);
});
afterAll(async () => {
  await two?.close();
  await one?.close();
});

const get = (server: TestServer, path: string, credential = 'mk_acme') => server.request('GET', path, { credential });
const statuses = ({ json }: TestResponse) => (json as { status: string }[]).map(({ status }) => status);

/** Holds a read model back until it is released: its rows can be read but not written. */
async function holdBack(readModel: string): Promise<{ release(): Promise<void> }> {
  const client = new Client({ connectionString: one.databaseUrl });
  await client.connect();
  const { rows } = await client.query<{ table_name: string }>('select table_name from projections where name = $1', [readModel]);
  await client.query('begin');
  await client.query(`lock table ${rows[0]?.table_name} in share mode`);
  return { release: () => client.end() };
}

/**
 * Sends the read while the read model is held back, and releases it after the time in which a read that does not wait would have been
 * answered.
 */
async function askedWhileBehind(
  readModel: string,
  happens: () => Promise<unknown>,
  ask: () => Promise<TestResponse>,
): Promise<TestResponse> {
  const hold = await holdBack(readModel);
  try {
    await happens();
    const answer = ask();
    for (let passed = 0; passed < 5; passed += 1) await one.request('GET', '/health');
    await hold.release();
    return await answer;
  } finally {
    await hold.release();
  }
}

describe.each([
  ['the same replica', () => one],
  ['another replica', () => two],
])('a later response of %s does not contradict an earlier one:', (_, replica) => {
  it('an active agent has a deployment that succeeded', async () => {
    const agentId = await bed.created('acme');
    const answer = await askedWhileBehind(
      'deployments',
      async () => {
        await deploys(agentId);
        await bed.deployed(agentId);
        expect((await get(one, `/api/agents/${agentId}`)).json.status).toBe('active');
      },
      () => get(replica(), `/api/agents/${agentId}/deployments`),
    );
    expect(statuses(answer)).toEqual(['success']);
  });

  it('an agent that its history shows as active is active', async () => {
    const agentId = await bed.created('acme');
    const answer = await askedWhileBehind(
      'agents',
      async () => {
        await deploys(agentId);
        await bed.deployed(agentId);
        expect((await get(one, `/api/v1/agents/${agentId}/history/explain`)).json.status).toBe('active');
      },
      () => get(replica(), `/api/agents/${agentId}`),
    );
    expect(answer.json.status).toBe('active');
  });

  it('an agent whose deletion was answered is gone, also from the list', async () => {
    const agentId = await bed.active('acme', { externalId: `gone ${uuidv7()}` });
    const answer = await askedWhileBehind(
      'agents',
      async () => {
        await bed.says(agentId, { type: 'DeleteAgent', accountId: 'acme' });
        await bed.says(agentId, { type: 'RecordDeleted' });
        expect((await one.request('DELETE', `/api/agents/${agentId}`, { credential: 'mk_acme' })).status).toBe(404);
      },
      () => get(replica(), '/api/agents?limit=200'),
    );
    expect(JSON.stringify(answer.json)).not.toContain(agentId);
    expect((await get(replica(), `/api/agents/${agentId}`)).status).toBe(404);
  });

  it('an event in the history is in the audit', async () => {
    const agentId = await bed.created('acme');
    const answer = await askedWhileBehind(
      'audit_entries',
      async () => {
        await deploys(agentId);
        expect((await get(one, `/api/v1/agents/${agentId}/history`)).json).toHaveLength(2);
      },
      () => get(replica(), `/api/v1/audit?agent_id=${agentId}`),
    );
    expect(answer.json).toHaveLength(2);
  });

  it('the reason of a refusal is in the log', async () => {
    const agentId = await bed.created('acme');
    const answer = await askedWhileBehind(
      'log_journal',
      async () => {
        await deploys(agentId);
        const refused = await one.request('POST', `/api/agents/${agentId}/restart`, { credential: 'mk_acme' });
        expect(refused.json.code).toBe('deploy_in_progress');
      },
      () => get(replica(), `/api/agents/${agentId}/logs`),
    );
    expect(answer.json).toHaveLength(2);
  });

  it('a line that a stream has shown is in the log', async () => {
    const agentId = await bed.created('acme');
    const answer = await askedWhileBehind(
      'log_lines',
      () => prints(agentId, 'hello'),
      () => get(replica(), `/api/agents/${agentId}/logs`),
    );
    expect((answer.json as { message: string }[]).map(({ message }) => message)).toContain('hello');
  });
});

it('a read does not wait for events of another account', async () => {
  const theirs = await bed.active('other');
  await get(two, `/api/agents/${theirs}/deployments`, 'mk_other');
  const ours = await bed.created('acme');
  const hold = await holdBack('deployments');
  try {
    await deploys(ours);
    expect(statuses(await get(one, `/api/agents/${theirs}/deployments`, 'mk_other'))).toEqual(['success']);
    expect(statuses(await get(two, `/api/agents/${theirs}/deployments`, 'mk_other'))).toEqual(['success']);
  } finally {
    await hold.release();
  }
});

async function deploys(agentId: string): Promise<void> {
  const source = { source: 'docker' as const, imageName: 'nginx:1', repoUrl: null, branch: null, templateId: null };
  const deadlineAt = new Date(Date.now() + 60_000).toISOString();
  await bed.says(agentId, { type: 'DeployAgent', accountId: 'acme', deploymentId: uuidv7(), deadlineAt, ...source });
}

async function prints(agentId: string, line: string): Promise<void> {
  const at = new Date().toISOString();
  const { accountId: _, ...context } = systemContext('logs', null);
  const data = { lines: [{ t: at, l: 'info', m: line }], cursor: { generation: 1, time: at, count: 1 } };
  const metadata = { actor: context.actor, account_id: null, request_id: null, causation_id: null, ip: null };
  const event = { id: uuidv7(), type: 'LogLinesCaptured', schemaVersion: 1, data, metadata };
  await one.app.get(EventStore, { strict: false }).append(`log-${agentId}`, 'no_stream', [event]);
}
