import type { DynamicModule } from '@nestjs/common';

import { ProvisioningModule } from '../../src/features/provisioning/provisioning.module.ts';
import { AgentFixture } from '../support/agent-fixture.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { runningFeatures } from '../support/features.ts';
import type { TestServer } from '../support/http-server.ts';

/** A template, and what is recognized of it. */
export const nodeTemplate = ['node', 'a Node project (package.json)'] as const;
export const pythonTemplate = ['python', 'a Python project (requirements.txt)'] as const;

/** Registers the tests of templates that are projects, on the runtime that the module provides. */
export function projectTemplates(templates: (readonly [id: string, found: string])[], open: () => Promise<DynamicModule>): void {
  let server: TestServer;

  beforeAll(async () => {
    const features = runningFeatures(await open());
    server = await startFeatureServer({ ...features, modules: [...features.modules, ProvisioningModule] });
    await new AgentFixture(server).account('acme', 100);
  });
  afterAll(() => server?.close());

  const call = (method: string, path: string, json?: unknown) =>
    server.request(method, path, { credential: 'mk_acme', json, headers: { prefer: 'wait=100' } });
  const made = async (templateId: string) => (await call('POST', '/api/agents', { name: templateId, templateId })).json;
  const chat = async (id: string, message: string, conversationId?: string) =>
    (await call('POST', `/api/agents/${id}/chat`, { message, conversation_id: conversationId })).json;

  it.each(templates)('%s answers, and remembers its conversation over a sleep, a stop and a new deployment', async (templateId, found) => {
    const { id, status } = await made(templateId);
    const [deployment] = (await call('GET', `/api/v1/agents/${id}/deployments`)).json;
    expect(deployment.build_log).toContain(`Found ${found}`);
    expect(status).toBe('active');
    const first = await chat(id, 'ahoy');
    expect(first.response).toBe('You wrote: ahoy. It was message 1 of this conversation.');
    expect((await call('POST', `/api/agents/${id}/sleep`)).json).toMatchObject({ status: 'sleeping' });
    expect((await chat(id, 'again', first.conversation_id)).response).toContain('message 2 of this conversation');
    expect((await call('POST', `/api/agents/${id}/stop`)).json).toMatchObject({ status: 'stopped' });
    expect((await call('POST', `/api/agents/${id}/start`)).json).toMatchObject({ status: 'active' });
    expect((await chat(id, 'back', first.conversation_id)).response).toContain('message 3 of this conversation');
    expect((await call('POST', '/api/deploy', { agentId: id, source: 'template', templateId })).json).toMatchObject({ status: 'active' });
    expect((await chat(id, 'anew', first.conversation_id)).response).toContain('message 4 of this conversation');
  });
}
