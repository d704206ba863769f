import { readFileSync, writeFileSync } from 'node:fs';

import fc from 'fast-check';
import { v7 as uuidv7 } from 'uuid';

import { AgentFixture } from '../../../../test/support/agent-fixture.ts';
import { owner, steps, walk } from '../../../../test/support/agent-arbitraries.ts';
import { startFeatureServer } from '../../../../test/support/feature-server.ts';
import { agentFeatures } from '../../../../test/support/features.ts';
import type { TestResponse, RequestOptions, TestServer } from '../../../../test/support/http-server.ts';
import { agentStream, type AgentCommand } from '../../agents/index.ts';
import { Agents } from '../../agents/services.ts';
import { conversationDecider, conversationEvents } from '../../messages/index.ts';
import { Aggregates } from '../../../eventsourcing/aggregates/aggregates.ts';
import { EventStore, type EventMetadata, type StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { systemContext, type CommandContext } from '../../../kernel/context/command-context.ts';
import { ReadModels } from '../../../eventsourcing/projections/projection.ts';

let server: TestServer;
let agents: AgentFixture;

beforeAll(async () => {
  server = await startFeatureServer({
    ...agentFeatures,
    definitions: [...agentFeatures.definitions, ...Object.values(conversationEvents)],
  });
  agents = new AgentFixture(server);
});
afterAll(() => server?.close());

const deadlineAt = '2100-01-01T00:00:00.000Z';
const call = (method: string, path: string, options: RequestOptions = {}) =>
  server.request(method, `/api/v1/agents/${path}`, { credential: 'mk_acme', ...options });

function expectProblem(answer: TestResponse, status: number, code: string): void {
  expect({ status: answer.status, code: answer.json?.code }).toEqual({ status, code });
}

/** Records what the deployment saga would write, with the latest event as its cause. */
async function record(agentId: string, ...commands: AgentCommand[]): Promise<void> {
  const service = server.app.get(Agents, { strict: false });
  for (const command of commands) {
    const cause = (await agents.events(agentId)).findLast(
      ({ type }) => !['DeploymentStarted', 'ImageResolved', 'VariableSet'].includes(type),
    );
    await service.execute(agentId, command, systemContext('deployments', 'acme', cause?.id));
  }
}

/** Deploys the agent: sends the owner's request and records the steps of the saga. */
async function deploy(agentId: string, ends: (deploymentId: string) => AgentCommand): Promise<void> {
  const deploymentId = uuidv7();
  const more = { source: 'docker' as const, imageName: 'nginx:1', repoUrl: null, branch: null, templateId: null };
  await as('mk_acme', agentId, { type: 'DeployAgent', accountId: 'acme', deadlineAt, deploymentId, ...more });
  const image = { image: 'nginx@sha256:1', imageName: 'nginx:1', command: ['nginx'], commitSha: null };
  await record(
    agentId,
    { type: 'RecordDeploymentStarted', deploymentId, deadlineAt },
    { type: 'RecordImage', deploymentId, ...image },
    ends(deploymentId),
  );
}

function byKey(key: string): CommandContext {
  return { ...systemContext('', 'acme'), actor: { kind: 'api_key', id: key, name: key } };
}

async function as(key: string, agentId: string, command: AgentCommand): Promise<void> {
  await server.app.get(Agents, { strict: false }).execute(agentId, command, byKey(key));
}

/** Sends the agent a message as the holder of a key, and returns its id. */
async function message(agentId: string, key: string): Promise<string> {
  const messageId = uuidv7();
  const text = { v: 1 as const, key: 1, iv: 'aXY=', ct: 'Y3Q=' };
  const said = { messageId, channel: 'chat' as const, text, replyBy: null, begins: true };
  const command = { type: 'AcceptMessage' as const, agentId, accountId: 'acme', ...said };
  await server.app.get(Aggregates, { strict: false }).execute(`conversation-${uuidv7()}`, conversationDecider, command, byKey(key));
  return messageId;
}

const ready: AgentCommand = { type: 'RecordReady', generation: 1 };
const idleSleep: AgentCommand = { type: 'SleepAgent', accountId: 'acme', depth: 'frozen', reason: 'idle', deadlineAt };

describe('the state of an agent in the past', () => {
  it('is what GET answered then, whatever happened to it', async () => {
    const store = server.app.get(EventStore, { strict: false });
    const metadata: EventMetadata = { ...metadataOf(owner), account_id: owner };
    for (const plan of fc.sample(steps, { numRuns: 4 })) {
      const agentId = uuidv7();
      const answers: unknown[] = [];
      const look = async ({ position }: StoredEvent) => {
        await server.app.get(ReadModels, { strict: false }).waitFor('agents', position);
        const answer = await server.request('GET', `/api/v1/agents/${agentId}`, { credential: `mk_${owner}` });
        answers.push(answer.status === 200 ? answer.json : null);
      };
      for (const [revision, { type, data }] of walk(plan.slice(0, 25), () => undefined).log.entries()) {
        const event = { id: uuidv7(), type, data: structuredClone(data) as StoredEvent['data'], metadata };
        const schemaVersion = type === 'DeploymentFailed' ? 2 : 1;
        const { events } = await store.append(agentStream(agentId), revision === 0 ? 'no_stream' : revision - 1, [
          { ...event, schemaVersion },
        ]);
        await look(events[0] as StoredEvent);
      }
      for (const [revision, answer] of answers.entries()) {
        const then = await call('GET', `${agentId}/history/state?revision=${revision}`, { credential: `mk_${owner}` });
        expect(then.json).toMatchObject({ revision, agent: answer });
      }
    }
  });

  it('is found by time, including the present', async () => {
    const agentId = await agents.active('acme');
    const events = await agents.events(agentId);
    const { at } = events[1] as StoredEvent;
    const last = events.findLast((event) => event.at <= at) as StoredEvent;
    expect((await call('GET', `${agentId}/history/state?at=${at}`)).json).toMatchObject({ revision: last.revision, at: last.at });
    const offset = encodeURIComponent(new Date(Date.parse(at) + 7_200_000).toISOString().replace('Z', '+02:00'));
    expect((await call('GET', `${agentId}/history/state?at=${offset}`)).json.revision).toBe(last.revision);
    expect((await call('GET', `${agentId}/history/state?at=2999-01-01`)).json.revision).toBe(events.length - 1);
  });

  it('shows variables and the latest deployment with secrets masked, even of a deleted agent', async () => {
    const agentId = await agents.created('acme');
    await call('POST', `${agentId}/env`, { json: { key: 'TOKEN', value: 'canary-4711-secret', is_secret: true } });
    await deploy(agentId, () => ready);
    const live = await call('GET', `${agentId}/env`);
    const then = await call('GET', `${agentId}/history/state?revision=3`);
    expect(then.json).toMatchObject({ env: live.json, deployment: { status: 'building', triggered_by: 'api_key mk_acme' } });
    expect(then.text).not.toContain('4711-secret');
    await as('mk_acme', agentId, { type: 'DeleteAgent', accountId: 'acme' });
    await record(agentId, { type: 'RecordDeleted' });
    expect((await call('GET', `${agentId}/history/state?revision=3`)).json).toEqual(then.json);
    expect((await call('GET', `${agentId}/history/state?at=2999-01-01`)).json).toMatchObject({ agent: null, env: [], deployment: null });
  });

  it('refuses a moment that is malformed or that the agent has not reached', async () => {
    const agentId = await agents.created('acme');
    for (const query of [
      '',
      '?at=2026-01-01&revision=0',
      '?at=yesterday',
      '?at=2026-02-30',
      '?revision=-1',
      '?revision=1.5',
      '?revision=1',
      '?foo=1',
    ])
      expectProblem(await call('GET', `${agentId}/history/state${query}`), 400, 'invalid_request');
    expectProblem(await call('GET', `${agentId}/history/state?at=2020-01-01`), 404, 'agent_not_found');
    for (const query of ['', '?from=0', '?from=0&to=x', '?from=0&to=1'])
      expectProblem(await call('GET', `${agentId}/history/diff${query}`), 400, 'invalid_request');
    expectProblem(await call('GET', `${agentId}/history/diff?from=2020-01-01&to=0`), 404, 'agent_not_found');
    for (const path of ['state?revision=0', 'diff?from=0&to=0', 'explain']) {
      expectProblem(await call('GET', `${agentId}/history/${path}`, { credential: 'mk_other' }), 404, 'agent_not_found');
      expectProblem(await call('GET', `${uuidv7()}/history/${path}`), 404, 'agent_not_found');
      expectProblem(await call('GET', `${agentId}/history/${path}`, { credential: 'mk_acme_deploy' }), 403, 'insufficient_scope');
    }
  });
});

function metadataOf(id: string): Omit<EventMetadata, 'account_id'> {
  return { actor: { kind: 'api_key', id, name: id }, request_id: null, causation_id: null, ip: null };
}

describe('a diff', () => {
  it('names the last event behind each change, also backwards', async () => {
    const agentId = await agents.created('acme');
    await call('PATCH', agentId, { json: { name: 'first' } });
    await call('PATCH', agentId, { json: { name: 'second', description: 'new' } });
    const [, , second] = await agents.events(agentId);
    const diff = await call('GET', `${agentId}/history/diff?from=0&to=2`);
    const named = (json: { changes: { path: string }[] }) => json.changes.filter(({ path }) => !path.endsWith('_at'));
    expect(named(diff.json)).toEqual([
      { path: '/agent/name', before: 'helper', after: 'second', event_id: second?.id },
      { path: '/agent/description', before: null, after: 'new', event_id: second?.id },
    ]);
    const back = await call('GET', `${agentId}/history/diff?from=2&to=0`);
    expect(back.json).toMatchObject({ from: diff.json.to, to: diff.json.from });
    expect(named(back.json)[0]).toEqual({ path: '/agent/name', before: 'second', after: 'helper', event_id: second?.id });
    expect((await call('GET', `${agentId}/history/diff?from=2&to=${encodeURIComponent(second?.at ?? '')}`)).json.changes).toEqual([]);
  });
});

describe('the explanation of a status', () => {
  interface Cause {
    type: string;
    actor: { id: string };
    summary: string;
  }
  const explained = async (agentId: string) => {
    const { json } = await call('GET', `${agentId}/history/explain`);
    return { status: json.status, causes: (json.causes as Cause[]).map(({ type, actor }) => `${type} by ${actor.id}`), json };
  };

  it('names the last use before an idle sleep', async () => {
    const agentId = await agents.created('acme');
    await deploy(agentId, () => ready);
    await message(agentId, 'mk_acme_early');
    await message(agentId, 'mk_acme_chat');
    await record(agentId, idleSleep, { type: 'RecordSlept', depth: 'frozen' });
    await message(agentId, 'mk_acme_late');
    const { status, causes, json } = await explained(agentId);
    expect([status, causes]).toEqual([
      'sleeping',
      ['MessageAccepted by mk_acme_chat', 'AgentSleepRequested by deployments', 'AgentSlept by deployments'],
    ]);
    expect(json.causes[1].summary).toBe('Asked the agent to sleep, its memory kept, because it was not used, for 300 s');
    expect(json.since).toBe((await agents.events(agentId)).at(-1)?.at);
  });

  it('names the deployment before the sleep of an agent that was never used', async () => {
    const agentId = await agents.created('acme');
    await deploy(agentId, () => ready);
    await record(agentId, idleSleep, { type: 'RecordSlept', depth: 'frozen' }, { ...idleSleep, depth: 'stopped', reason: 'deep' });
    await record(agentId, { type: 'RecordSlept', depth: 'stopped' });
    const { causes, json } = await explained(agentId);
    const slept = (await agents.events(agentId)).find(({ type }) => type === 'AgentSlept');
    expect([causes[0], causes.at(-1), json.since]).toEqual(['DeploymentRequested by mk_acme', 'AgentSlept by deployments', slept?.at]);
    expect(causes).toHaveLength(4);
  });

  it('names the waiting message, and the key that sent it, behind a wake', async () => {
    const agentId = await agents.asleep('acme');
    const messageId = await message(agentId, 'mk_acme_chat');
    const wake: AgentCommand = { type: 'WakeAgent', accountId: 'acme', trigger: 'chat', startTimeoutSeconds: 60 };
    await server.app.get(Agents, { strict: false }).execute(agentId, wake, systemContext('messages', 'acme', messageId));
    expect(await explained(agentId)).toMatchObject({
      status: 'waking',
      causes: ['MessageAccepted by mk_acme_chat', 'AgentWakeRequested by messages'],
    });
  });

  it('names the failed deployment, and who requested it, behind an error', async () => {
    const agentId = await agents.created('acme');
    await deploy(agentId, (deploymentId) => ({
      type: 'RecordDeploymentFailure',
      deploymentId,
      kind: 'deployment',
      reason: 'no Dockerfile',
    }));
    await call('POST', `${agentId}/env`, { json: { key: 'LATER', value: '1' } });
    const { status, causes, json } = await explained(agentId);
    expect([status, causes]).toEqual(['error', ['DeploymentRequested by mk_acme', 'DeploymentFailed by deployments']]);
    expect(json.causes[1].summary).toContain('no Dockerfile');
  });

  it('names each crash behind an error', async () => {
    const agentId = await agents.created('acme');
    await deploy(agentId, () => ready);
    for (let generation = 1; generation <= 5; generation++)
      await record(agentId, { type: 'RecordExit', generation, exitCode: 1, oom: false, cause: 'exited', startTimeoutSeconds: 60 });
    const { status, causes } = await explained(agentId);
    expect([status, causes]).toEqual([
      'error',
      [
        'DeploymentRequested by mk_acme',
        'DeploymentSucceeded by deployments',
        ...Array.from({ length: 5 }, () => 'ContainerExited by deployments'),
      ],
    ]);
  });

  it('names who requested a deletion', async () => {
    const agentId = await agents.created('acme');
    await as('mk_acme', agentId, { type: 'DeleteAgent', accountId: 'acme' });
    await record(agentId, { type: 'RecordDeleted' });
    expect(await explained(agentId)).toMatchObject({
      status: 'deleted',
      causes: ['AgentDeletionRequested by mk_acme', 'AgentDeleted by deployments'],
    });
  });
});

const page = new URL('../../../../docs/reference/api.md', import.meta.url);
const fence = (language: string, text: string) => `\`\`\`${language}\n${text}\n\`\`\``;
const asked = (what: string, json: unknown) => [
  fence('', `GET /api/v1/agents/AGENT/history/${what}`),
  '',
  fence('json', JSON.stringify(json, null, 2)),
];

/** UPDATE_DOCS=1 rewrites the example. */
it('docs/reference/api.md shows the answers of this test: eleven events, the state after each, a diff, an explanation', async () => {
  const agentId = await agents.created('acme');
  await call('PATCH', agentId, { json: { name: 'greeter' } });
  await call('POST', `${agentId}/env`, { json: { key: 'GREETING', value: 'hello' } });
  await call('POST', `${agentId}/env`, { json: { key: 'TOKEN', value: 'a-very-secret-value', is_secret: true } });
  await deploy(agentId, () => ready);
  await call('PUT', `${agentId}/env/GREETING`, { json: { value: 'good morning' } });
  await call('POST', `${agentId}/sleep`);
  await record(agentId, { type: 'RecordSlept', depth: 'frozen' });
  const events = await agents.events(agentId);
  expect(events).toHaveLength(11);
  const { json: history } = await call('GET', `${agentId}/history`);
  const rows: string[] = [];
  for (const { revision, summary } of history as { revision: number; summary: string }[]) {
    const { agent, env } = (await call('GET', `${agentId}/history/state?revision=${revision}`)).json;
    const variables = (env as { key: string; value: string }[]).map(({ key, value }) => `${key}=${value}`).join(', ');
    rows.push(`| ${revision} | ${summary} | ${agent.name}, ${agent.status} | ${variables} |`);
  }
  const shown = [
    '| revision | event | agent | env |',
    '|---|---|---|---|',
    ...rows,
    '',
    ...asked('diff?from=7&to=10', (await call('GET', `${agentId}/history/diff?from=7&to=10`)).json),
    '',
    ...asked('explain', (await call('GET', `${agentId}/history/explain`)).json),
  ].join('\n');
  const named = events.reduce((text, { id, revision }) => text.replaceAll(id, `EVENT-${revision}`), shown);
  const example = named.replaceAll(agentId, 'AGENT').replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME');
  const [begin, end] = ['<!-- example: history -->\n\n', '\n\n<!-- end of example -->'];
  const text = readFileSync(page, 'utf8');
  const [before = '', rest = ''] = text.split(begin);
  const written = `${before}${begin}${example}${end}${rest.split(end)[1] ?? ''}`;
  if (process.env.UPDATE_DOCS !== undefined) writeFileSync(page, written);
  expect(readFileSync(page, 'utf8')).toBe(written);
});
