import { removeBehindOurBack, seenContainers, seenVolumes, startsSince } from '../support/engine.ts';
import { StartedService } from '../support/started-service.ts';
import { until } from '../support/until.ts';

interface AgentBody {
  agent_id: string;
  status: string;
  message: string;
  deployment_id: string;
}

async function provision(service: StartedService, name: string): Promise<string> {
  const made = await service.call<AgentBody>('POST', '/api/agents', { name, templateId: 'hello' });
  expect(made.status).toBe(201);
  expect(made.body.status).toBe('deploying');
  return made.body.agent_id;
}

async function waitFor(service: StartedService, agentId: string, status: string): Promise<AgentBody> {
  const answer = await service.call<AgentBody>('GET', `/api/v1/agents/${agentId}/wait?status=${status}&timeout=60`);
  expect(answer.body).toMatchObject({ status });
  return answer.body;
}

function chat(service: StartedService, agentId: string, message: string, conversation_id?: string) {
  return service.call('POST', `/api/agents/${agentId}/chat`, { message, ...(conversation_id ? { conversation_id } : {}) });
}

/** Returns the count in the reply of the hello agent. */
function counted(response: string): number {
  return Number(/asked (once|\d+)/.exec(response)?.[1]?.replace('once', '1'));
}

/** Registers the story of an agent on one runtime, with the log in the store that the environment names. */
export function story(runtime: 'docker' | 'local'): void {
  const onDocker = runtime === 'docker';
  let service: StartedService;
  let agentId: string;

  beforeAll(async () => {
    service = await StartedService.start({ runtime, environment: { MOORING_DEEP_SLEEP_AFTER: '2' } });
    agentId = await provision(service, 'story');
  });

  afterAll(async () => {
    await service.dispose();
  });

  it('deploys an agent from the template hello', async () => {
    await waitFor(service, agentId, 'active');
    const deployments = await service.call('GET', `/api/v1/agents/${agentId}/deployments`);
    expect(deployments.body).toMatchObject([{ status: 'success', source: 'template' }]);
    expect(deployments.body[0].build_log).not.toBe('');
    if (onDocker) expect(await seenContainers(agentId)).toMatchObject([{ state: 'running' }]);
  });

  it('answers two messages of one conversation, and keeps its counter on the volume', async () => {
    const first = await chat(service, agentId, 'hello');
    expect(first.status).toBe(200);
    const second = await chat(service, agentId, 'again', first.body.conversation_id);
    expect(second.body.conversation_id).toBe(first.body.conversation_id);
    expect(counted(second.body.response)).toBe(counted(first.body.response) + 1);
    const thread = await service.call('GET', `/api/agents/${agentId}/conversations/${first.body.conversation_id}/messages`);
    expect(thread.body.map(({ role, text }: { role: string; text: string }) => [role, text])).toEqual([
      ['user', 'hello'],
      ['agent', first.body.response],
      ['user', 'again'],
      ['agent', second.body.response],
    ]);
  });

  it('shows what the agent logged', async () => {
    const lines = await until('the log holds a line of the agent', async () => {
      const logs = await service.call('GET', `/api/agents/${agentId}/logs?limit=1000`);
      const own = logs.body.filter(({ source }: { source: string }) => source === 'agent');
      return own.length >= 2 ? own : undefined;
    });
    expect(lines[0]).toMatchObject({ level: 'info', source: 'agent' });
  });

  it('sleeps frozen, and wakes to answer', async () => {
    const slept = await service.call('POST', `/api/agents/${agentId}/sleep`, undefined, { prefer: 'wait=20' });
    expect(slept.body).toMatchObject({ status: 'sleeping' });
    if (onDocker) expect(await seenContainers(agentId)).toMatchObject([{ state: 'paused' }]);
    const reply = await chat(service, agentId, 'good morning');
    expect(reply.status).toBe(200);
    expect(reply.headers.get('x-agent-woken')).toBe('true');
  });

  it('sleeps deeply after a while, and wakes once for a hundred messages', async () => {
    await service.call('POST', `/api/agents/${agentId}/sleep`, undefined, { prefer: 'wait=20' });
    await until(
      'its container is stopped',
      async () => {
        const history = await service.call('GET', `/api/v1/agents/${agentId}/history?limit=200&type=AgentSlept`);
        return history.body.at(-1).data.depth === 'stopped' ? true : undefined;
      },
      { everyMs: 100 },
    );
    const since = Math.floor(Date.now() / 1000);
    const before = onDocker ? await startsSince(agentId, since) : 0;
    const replies = await Promise.all(Array.from({ length: 100 }, (_, index) => chat(service, agentId, `message ${index}`)));
    expect(replies.map(({ status }) => status)).toEqual(Array.from({ length: 100 }, () => 200));
    expect(new Set(replies.map(({ body }) => body.response)).size).toBe(100);
    if (onDocker) expect((await startsSince(agentId, since)) - before).toBe(1);
  });

  it('refuses a message while it is stopped, and starts again', async () => {
    const stopped = await service.call('POST', `/api/agents/${agentId}/stop`, undefined, { prefer: 'wait=30' });
    expect(stopped.body).toMatchObject({ status: 'stopped' });
    const refused = await chat(service, agentId, 'anybody there?');
    expect(refused).toMatchObject({ status: 409, body: { code: 'agent_unavailable' } });
    const started = await service.call('POST', `/api/agents/${agentId}/start`, undefined, { prefer: 'wait=30' });
    expect(started).toMatchObject({ status: 200, body: { status: 'active' } });
  });

  it('accepts one of twenty concurrent deployments', async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => service.call('POST', `/api/v1/agents/${agentId}/deploy`)));
    const statuses = answers.map(({ status }) => status).toSorted((a, b) => a - b);
    expect(statuses).toEqual([202, ...Array.from({ length: 19 }, () => 409)]);
    await waitFor(service, agentId, 'active');
  });

  it('lists the whole history, with actor and request', async () => {
    const deploy = await service.call('POST', `/api/v1/agents/${agentId}/restart`, undefined, {
      'x-request-id': 'story-1',
      prefer: 'wait=30',
    });
    expect(deploy.body).toMatchObject({ status: 'active' });
    const history = await service.call('GET', `/api/v1/agents/${agentId}/history?limit=200`);
    const types = history.body.map(({ type }: { type: string }) => type);
    expect(types.slice(0, 2)).toEqual(['AgentProvisioned', 'DeploymentRequested']);
    const asked = history.body.find(({ type }: { type: string }) => type === 'AgentRestartRequested');
    expect(asked).toMatchObject({ request_id: 'story-1', actor: { kind: 'api_key' } });
    expect(asked.summary).not.toBe('');
  });

  if (onDocker)
    it('notices within 2 s that its container was removed by hand, and recovers', async () => {
      const [container] = await seenContainers(agentId);
      await removeBehindOurBack(container?.id ?? '');
      await until('the history tells', async () => {
        const history = await service.call('GET', `/api/v1/agents/${agentId}/history?limit=200&type=ContainerExited`);
        return history.body.length > 0 ? true : undefined;
      });
      await waitFor(service, agentId, 'active');
      expect((await chat(service, agentId, 'still there?')).status).toBe(200);
    });

  it('leaves nothing behind when it is deleted in the middle of a deployment', async () => {
    const other = await provision(service, 'short-lived');
    expect((await service.call('DELETE', `/api/v1/agents/${other}`)).status).toBe(204);
    if (onDocker) expect([await seenContainers(other), await seenVolumes(other)]).toEqual([[], []]);
    expect((await service.call('GET', `/api/v1/agents/${other}`)).status).toBe(404);
  });

  it('is gone after DELETE, but its history remains', async () => {
    expect((await service.call('DELETE', `/api/agents/${agentId}`)).status).toBe(204);
    if (onDocker) expect([await seenContainers(agentId), await seenVolumes(agentId)]).toEqual([[], []]);
    for (const path of [`/api/v1/agents/${agentId}`, `/api/agents/${agentId}`, `/api/agents/${agentId}/logs`])
      expect(await service.call('GET', path)).toMatchObject({ status: 404, body: { code: 'agent_not_found' } });
    const history = await service.call('GET', `/api/v1/agents/${agentId}/history?limit=200`);
    expect(history.body.at(-1)).toMatchObject({ type: 'AgentDeleted' });
  });
}
