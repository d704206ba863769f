import { existsSync } from 'node:fs';

import type { DynamicModule } from '@nestjs/common';

import { AgentFixture } from '../../../test/support/agent-fixture.ts';
import { DockerFixture } from '../../../test/support/docker-fixture.ts';
import { startFeatureServer } from '../../../test/support/feature-server.ts';
import { runningFeatures } from '../../../test/support/features.ts';
import { fixtureRuntime } from '../../../test/support/fixture-runtime.ts';
import { GitServer } from '../../../test/support/git-server.ts';
import type { TestServer } from '../../../test/support/http-server.ts';
import { LocalRuntimeModule } from '../../../test/support/local-runtime-module.ts';
import { until } from '../../../test/support/until.ts';
import { ContainerRuntime } from '../../runtime/runtime.ts';
import { ProvisioningModule } from './provisioning.module.ts';

/** Answers each message with what the release commands have written on the volume. */
const agent = `
  const { readFileSync } = require('node:fs');
  require('node:http').createServer((request, response) => {
    request.resume().on('end', () => {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ response: readFileSync(process.env.MOORING_VOLUME + '/releases', 'utf8') }));
    });
  }).listen(process.env.PORT, process.env.HOST);
`;
const writing = `require('node:fs').appendFileSync(process.env.MOORING_VOLUME + '/releases', process.env.VERSION + ' ');`;
const Procfile = 'release: VERSION=of-the-file node release.js\nweb: node agent.js\n';
const certificates = '/etc/ssl/certs/ca-certificates.crt';

interface Place {
  runtime: DynamicModule;
  close(): Promise<void>;
}

const places: Record<string, () => Promise<Place>> = {
  async local() {
    return { runtime: LocalRuntimeModule.forTest(), close: () => Promise.resolve() };
  },
  async Docker() {
    const bed = await DockerFixture.open();
    return { runtime: fixtureRuntime(bed), close: () => bed.close() };
  },
};

describe.each(Object.entries(places))('the release command of a Procfile on the %s runtime', (_, open) => {
  let git: GitServer;
  let place: Place;
  let server: TestServer;

  beforeAll(async () => {
    git = await GitServer.start();
    place = await open();
    const features = runningFeatures(place.runtime);
    const environment = {
      MOORING_ALLOW_PRIVATE_SOURCES: git.host,
      ...(existsSync(certificates) ? { MOORING_BUILD_CA_FILE: certificates } : {}),
    };
    server = await startFeatureServer({ ...features, modules: [...features.modules, ProvisioningModule], environment });
    await new AgentFixture(server).account('acme', 100);
  });
  afterAll(async () => {
    await server?.close();
    await place?.close();
    await git?.close();
  });

  const call = (method: string, path: string, json?: unknown, wait = 100) =>
    server.request(method, path, { credential: 'mk_acme', json, headers: { prefer: `wait=${wait}` } });
  const provision = async (name: string, release: string, more: object = {}) => {
    git.commit(name, { Procfile, 'package.json': '{}', 'agent.js': agent, 'release.js': release });
    return (await call('POST', '/api/v1/provision', { name, repo_url: git.url(name), ...more })).json as {
      agent_id: string;
      status: string;
    };
  };
  const reply = async (id: string) => (await call('POST', `/api/agents/${id}/chat`, { message: 'hello' })).json.response as string;
  const latest = async (id: string) => (await call('GET', `/api/v1/agents/${id}/deployments`)).json[0];
  const containers = async (id: string) => (await server.app.get(ContainerRuntime, { strict: false }).inspect(id)).containers;

  it('runs before the agent, once for each deployment, and at no restart and no rollback', async () => {
    const { agent_id: id, status } = await provision('once', `console.log('migrating'); ${writing}`);
    const { build_log: log, status: outcome } = await latest(id);
    expect({ status, outcome, log }).toMatchObject({ status: 'active', outcome: 'success' });
    expect(log).toContain('Running the release command: ["env","VERSION=of-the-file","node","release.js"]\nmigrating');
    expect(await reply(id)).toBe('of-the-file ');
    expect((await call('POST', `/api/v1/agents/${id}/restart`)).json).toMatchObject({ status: 'active' });
    expect(await reply(id)).toBe('of-the-file ');
    git.commit('once', { Procfile, 'package.json': '{}', 'agent.js': agent, 'release.js': `${writing}${writing}` });
    expect((await call('POST', `/api/v1/agents/${id}/deploy`)).json).toMatchObject({ status: 'active' });
    expect(await reply(id)).toBe('of-the-file of-the-file of-the-file ');
    expect((await call('POST', `/api/v1/agents/${id}/rollback`)).json).toMatchObject({ status: 'active' });
    expect(await reply(id)).toBe('of-the-file of-the-file of-the-file ');
    expect((await latest(id)).build_log).not.toContain('release command');
    await until('only the agent’s container is left', async () => ((await containers(id)).length === 1 ? true : undefined));
  });

  it('fails the deployment with its first error, without secrets, and leaves the volume as it is', async () => {
    const release = `
      ${writing}
      console.log('connecting with ' + process.env.PASSWORD);
      console.error('Error: relation "users" does not exist for ' + process.env.PASSWORD);
      console.error('the last words');
      process.exitCode = 3;
    `;
    const { agent_id: id } = await provision('fails', release, { auto_deploy: false });
    await call('POST', `/api/v1/agents/${id}/env`, { key: 'PASSWORD', value: 'canary-of-release', is_secret: true });
    expect((await call('POST', `/api/v1/agents/${id}/deploy`)).json).toMatchObject({ status: 'error' });
    const record = await latest(id);
    const reason = 'The release command failed (exit code 3): Error: relation "users" does not exist for ••••••••';
    expect(record).toMatchObject({ status: 'failed', message: reason });
    expect(record.build_log).toContain('connecting with ••••••••\n');
    expect(record.build_log).toContain('the last words\n');
    expect(record.build_log).toContain(`Failed at release: ${reason}`);
    await until('its container is removed', async () => ((await containers(id)).length === 0 ? true : undefined));
    git.commit('fails', { Procfile, 'package.json': '{}', 'agent.js': agent, 'release.js': writing });
    expect((await call('POST', `/api/v1/agents/${id}/deploy`)).json).toMatchObject({ status: 'active' });
    expect(await reply(id)).toBe('of-the-file of-the-file ');
    expect(JSON.stringify((await call('GET', `/api/v1/agents/${id}/history`)).json)).not.toContain('canary-of-release');
  });

  it('is ended by a cancellation, and the agent goes back to its release', async () => {
    const { agent_id: id } = await provision('canceled', writing);
    git.commit('canceled', {
      Procfile,
      'package.json': '{}',
      'agent.js': agent,
      'release.js': `console.log('waits'); setInterval(() => {}, 1000)`,
    });
    const { deployment_id: deploymentId } = (await call('POST', `/api/v1/agents/${id}/deploy`, undefined, 0)).json;
    await until('it runs', async () => ((await latest(id)).build_log.includes('waits') ? true : undefined));
    expect(await containers(id)).toContainEqual(expect.objectContaining({ state: 'running', generation: 3 }));
    expect((await call('POST', `/api/v1/agents/${id}/deployments/${deploymentId}/cancel`)).json).toMatchObject({ status: 'active' });
    expect(await latest(id)).toMatchObject({ id: deploymentId, status: 'canceled' });
    expect(await reply(id)).toBe('of-the-file ');
    await until('only the agent’s container is left', async () => ((await containers(id)).length === 1 ? true : undefined));
  });
});
