import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { ProvisioningModule } from '../../src/features/provisioning/provisioning.module.ts';
import { AgentFixture } from '../support/agent-fixture.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { runningFeatures } from '../support/features.ts';
import type { TestServer } from '../support/http-server.ts';
import { LocalRuntimeModule } from '../support/local-runtime-module.ts';

/** The programs, each of which answers its health check in a way of its own. */
const programs = {
  'no-route': `createServer((_, response) => response.writeHead(404).end('Cannot GET')).listen(process.env.PORT, process.env.HOST);`,
  silent: `createServer(() => undefined).listen(process.env.PORT, process.env.HOST);`,
  elsewhere: `createServer((_, response) => response.end('ok')).listen(0, process.env.HOST);`,
};

describe('an agent that is not ready in time', () => {
  let templates: string;
  let server: TestServer;

  beforeAll(async () => {
    templates = mkdtempSync(join(tmpdir(), 'mooring-unready-'));
    for (const [id, program] of Object.entries(programs)) {
      const source = { kind: 'program', language: 'node', start: ['node', 'agent.mjs'] };
      mkdirSync(join(templates, id));
      writeFileSync(join(templates, id, 'template.json'), JSON.stringify({ id, name: id, description: 'Never ready.', source }));
      writeFileSync(join(templates, id, 'agent.mjs'), `import { createServer } from 'node:http';\n${program}`);
    }
    const features = runningFeatures(LocalRuntimeModule.forTest());
    const environment = { MOORING_TEMPLATES_DIR: templates, MOORING_START_TIMEOUT: '3' };
    server = await startFeatureServer({ ...features, modules: [...features.modules, ProvisioningModule], environment });
    await new AgentFixture(server).account('acme', 10);
  });
  afterAll(async () => {
    await server?.close();
    rmSync(templates, { recursive: true, force: true });
  });

  const ask = (method: string, path: string, json?: unknown) =>
    server.request(method, path, { credential: 'mk_acme', json, headers: { prefer: 'wait=60' } });

  it.each([
    ['no-route', /GET \/healthz on port \d+ answered 404, and 2xx is needed: add such a route, or set health_path\.$/],
    ['silent', /GET \/healthz on port \d+: no answer within 2 s\. Let the program answer it/],
    ['elsewhere', /GET \/healthz on port \d+: connection refused\. Let the program listen on the port in PORT/],
  ])('says what was requested of it, what it answered, and what to do: %s', async (templateId, reason) => {
    const agent = (await ask('POST', '/api/agents', { name: templateId, templateId })).json;
    expect(agent.status).toBe('error');
    const [deployment] = (await ask('GET', `/api/v1/agents/${agent.id}/deployments`)).json;
    expect(deployment.message).toMatch(/^It was not ready within 3 s of its start: /);
    expect(deployment.message).toMatch(reason);
    const { json: lines } = await ask('GET', `/api/v1/agents/${agent.id}/logs`);
    const failure = lines.find(({ level }: { level: string }) => level === 'error');
    expect(failure.message).toMatch(reason);
  });
});
