import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { ProvisioningModule } from '../../src/features/provisioning/provisioning.module.ts';
import { AgentFixture } from '../support/agent-fixture.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { runningFeatures } from '../support/features.ts';
import type { TestServer } from '../support/http-server.ts';
import { LocalRuntimeModule } from '../support/local-runtime-module.ts';
import { until } from '../support/until.ts';

/** An agent that is ready a while after its start, which is longer than the start timeout of the installation. */
const slowProgram = `
  import { createServer } from 'node:http';
  const server = createServer((request, response) => {
    response.setHeader('content-type', 'application/json');
    request.resume().on('end', () => response.end(JSON.stringify({ response: 'at last' })));
  });
  setTimeout(() => server.listen(process.env.PORT, process.env.HOST), 1_500);
`;
const INSTALLATION_S = 1;
const TEMPLATE_S = 600;

describe('an agent whose template has a start timeout beyond that of the installation', () => {
  let templates: string;
  let server: TestServer;
  let bed: AgentFixture;

  beforeAll(async () => {
    templates = mkdtempSync(join(tmpdir(), 'mooring-start-timeouts-'));
    for (const [id, more] of Object.entries({ patient: { start_timeout: TEMPLATE_S }, usual: {} })) {
      const source = { kind: 'program', language: 'node', start: ['node', 'agent.mjs'] };
      mkdirSync(join(templates, id));
      writeFileSync(join(templates, id, 'template.json'), JSON.stringify({ id, name: id, description: 'Starts slowly.', source, ...more }));
      writeFileSync(join(templates, id, 'agent.mjs'), slowProgram);
    }
    const features = runningFeatures(LocalRuntimeModule.forTest());
    const environment = {
      MOORING_TEMPLATES_DIR: templates,
      MOORING_START_TIMEOUT: String(INSTALLATION_S),
      MOORING_DEEP_SLEEP_AFTER: '1',
    };
    server = await startFeatureServer({ ...features, modules: [...features.modules, ProvisioningModule], environment });
    bed = new AgentFixture(server);
    await bed.account('acme', 10);
  });
  afterAll(async () => {
    await server?.close();
    rmSync(templates, { recursive: true, force: true });
  });

  const call = (method: string, path: string, json?: unknown) =>
    server.request(method, path, { credential: 'mk_acme', json, headers: { prefer: 'wait=30' } });
  const deployed = async (templateId: string) => (await call('POST', '/api/agents', { name: templateId, templateId })).json;
  const ordered = async (id: string, verb: string) => (await call('POST', `/api/v1/agents/${id}/${verb}`)).json.status;
  /** Returns the seconds from the last event of the type to its deadline. */
  const timeFor = async (id: string, type: string) => {
    const event = (await bed.events(id)).findLast((one) => one.type === type);
    return Math.round((Date.parse(event?.data.deadline_at as string) - Date.parse(event?.at ?? '')) / 1000);
  };
  const asleepInDepth = async (id: string) => {
    await ordered(id, 'sleep');
    await until('it is stopped', async () => ((await bed.load(id)).state?.sleepDepth === 'stopped' ? true : undefined));
  };

  it('has that time to start, to restart and to wake, and its callers wait for the same time', async () => {
    const { id, status } = await deployed('patient');
    expect(status).toBe('active');
    expect([await ordered(id, 'restart'), await timeFor(id, 'AgentRestartRequested')]).toEqual(['active', TEMPLATE_S + 150]);
    await ordered(id, 'stop');
    expect([await ordered(id, 'start'), await timeFor(id, 'AgentStartRequested')]).toEqual(['active', TEMPLATE_S + 30]);
    await call('PATCH', `/api/v1/agents/${id}`, { public: true });
    await asleepInDepth(id);
    expect((await server.request('GET', `/a/${id}/`)).status).toBe(200);
    expect(await timeFor(id, 'AgentWakeRequested')).toBe(TEMPLATE_S + 30);
    await asleepInDepth(id);
    expect((await call('POST', `/api/agents/${id}/chat`, { message: 'hello' })).json.response).toBe('at last');
    expect(await timeFor(id, 'AgentWakeRequested')).toBe(TEMPLATE_S + 30);
  });

  it('has another template’s agent beside it that is held to the time of the installation', async () => {
    const { id, status } = await deployed('usual');
    expect(status).toBe('error');
    const [{ message }] = (await call('GET', `/api/v1/agents/${id}/deployments`)).json;
    expect(message).toContain(`not ready within ${INSTALLATION_S} s`);
  });
});
