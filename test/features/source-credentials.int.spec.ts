import { randomUUID } from 'node:crypto';

import { type DynamicModule, Module } from '@nestjs/common';

import { ContainerRuntime } from '../../src/platform/runtime/runtime.ts';
import { AgentBed } from '../support/agent-bed.ts';
import { describeWithDocker } from '../support/docker.ts';
import { DockerBed } from '../support/docker-bed.ts';
import { expectHidden } from '../support/canary.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { agentFeatures, runningFeatures } from '../support/features.ts';
import type { TestServer } from '../support/http-server.ts';
import { type RegistryOptions, TestRegistry } from '../support/test-registry.ts';
import { expectProblem } from '../support/things-server.ts';

const PASSWORD = 'canary-4711/+very?secret';

let server: TestServer;
const ask = (method: string, path: string, json?: unknown, credential = 'mk_acme') =>
  server.request(method, path, { credential, ...(json === undefined ? {} : { json }) });
const credential = (method: string, place = '', json?: unknown, caller = 'mk_acme') =>
  ask(method, `/api/v1/source-credentials${place === '' ? '' : `/${place}`}`, json, caller);
const given = { username: 'ci', password: PASSWORD };

describe('a source credential', () => {
  beforeAll(async () => void (server = await startFeatureServer(agentFeatures)));
  afterAll(() => server?.close());

  it('is stored, replaced, listed without its password, and removed', async () => {
    const made = await credential('PUT', 'registry/ghcr.io', given);
    const shown = { host: 'ghcr.io', kind: 'registry', username: 'ci', created_at: expect.any(String), last_used_at: null };
    expect([made.status, made.json]).toEqual([201, shown]);
    const replaced = await credential('PUT', 'registry/GHCR.io', { ...given, username: 'other' });
    expect([replaced.status, replaced.json]).toEqual([200, { ...shown, username: 'other', created_at: made.json.created_at }]);
    expect((await credential('PUT', 'git/git.example%3A3000', given)).json.host).toBe('git.example:3000');
    expect((await credential('GET')).json).toMatchObject([{ host: 'git.example:3000', kind: 'git' }, { host: 'ghcr.io' }]);
    expect((await credential('GET', '', undefined, 'mk_other')).json).toEqual([]);
    expectProblem(await credential('DELETE', 'registry/ghcr.io', undefined, 'mk_other'), 404, 'not_found');
    expect((await credential('DELETE', 'registry/ghcr.io')).status).toBe(204);
    for (const place of ['registry/ghcr.io', 'git/ghcr.io', 'ftp/ghcr.io', 'registry/a%20b'])
      expectProblem(await credential('DELETE', place), 404, 'not_found');
  });

  it('is refused with a bad kind, host, user name or password, and the field is named', async () => {
    for (const [place, json, field] of [
      ['ftp/a.example', given, 'kind'],
      ['registry/https%3A%2F%2Fa.example', given, 'host'],
      ['registry/a.example', { ...given, username: 'a:b' }, 'username'],
      ['registry/a.example', { ...given, password: '' }, 'password'],
      ['registry/a.example', { ...given, password: 'x'.repeat(8_193) }, 'password'],
      ['registry/a.example', { username: 'ci' }, 'password'],
      ['registry/a.example', { ...given, host: 'b.example' }, 'host'],
    ] as const) {
      const answer = await credential('PUT', place, json);
      expectProblem(answer, 400, 'invalid_request');
      expect([place, answer.json.errors]).toEqual([place, expect.arrayContaining([expect.objectContaining({ field })])]);
    }
    expectProblem(await credential('PUT', 'registry/a.example', given, 'mk_acme_manage'), 403, 'insufficient_scope');
  });

  it('leaves no password in the database, in events, in responses or in the log', async () => {
    const answers = [await credential('PUT', 'registry/canary.example', given), await credential('GET'), await ask('GET', '/api/v1/audit')];
    await expectHidden(server, PASSWORD, answers);
  });
});

@Module({})
class BedRuntime {}

describeWithDocker('an image of a registry that asks for a credential', () => {
  let bed: DockerBed;
  let agents: AgentBed;
  const registries: TestRegistry[] = [];
  const pulled = new Set<string>();

  const registry = async (more: Partial<RegistryOptions> = {}): Promise<TestRegistry> => {
    const started = await TestRegistry.start({ credential: `ci:${PASSWORD}`, ...more });
    registries.push(started);
    return started;
  };

  beforeAll(async () => {
    bed = await DockerBed.open();
    const runtime: DynamicModule = {
      module: BedRuntime,
      global: true,
      providers: [{ provide: ContainerRuntime, useFactory: () => bed.runtime }],
      exports: [ContainerRuntime],
    };
    server = await startFeatureServer({ ...runningFeatures(runtime), environment: { MOORING_ALLOW_PRIVATE_SOURCES: '127.0.0.1' } });
    agents = new AgentBed(server);
    for (const account of ['acme', 'other']) await agents.account(account, 20);
  });
  afterAll(async () => {
    await server?.close();
    for (const image of pulled)
      await bed.docker
        .getImage(image)
        .remove({ force: true })
        .catch(() => undefined);
    registries.forEach((each) => each.close());
    await bed?.close();
  });

  /** Deploys an agent with the image, and returns its build log and status when the image was found or refused. */
  const deploy = async (account: string, image: string): Promise<{ log: string; agentId: string }> => {
    pulled.add(image);
    const agentId = await agents.created(account, { image: 'docker', image_name: image });
    await server.request('POST', `/api/v1/agents/${agentId}/deploy`, { credential: `mk_${account}`, headers: { prefer: 'wait=60' } });
    const [record] = (await ask('GET', `/api/v1/agents/${agentId}/deployments`, undefined, `mk_${account}`)).json;
    await server.request('DELETE', `/api/v1/agents/${agentId}`, { credential: `mk_${account}`, headers: { prefer: 'wait=30' } });
    return { log: record.build_log, agentId };
  };
  const lastUse = async (host: string) =>
    ((await credential('GET')).json as { host: string; last_used_at: string | null }[]).find((each) => each.host === host)?.last_used_at;

  it('is pulled with the credential of the account for exactly that host, and by no other account', async () => {
    const { host, image, seen } = await registry();
    expect((await deploy('acme', image)).log).toContain('may not be had from it');
    await credential('PUT', 'registry/127.0.0.1', given);
    await credential('PUT', `git/${host}`, given);
    expect((await deploy('acme', image)).log).toContain('may not be had from it');
    expect(new Set(seen)).toEqual(new Set([null]));
    expect(await lastUse('127.0.0.1')).toBeNull();

    await credential('PUT', `registry/${host}`, given);
    const { log } = await deploy('acme', image);
    expect(log).not.toContain('may not be had from it');
    expect(log).toContain('Status: Downloaded newer image');
    expect(log).not.toContain('canary-4711');
    expect(seen.at(-1)).toBe(`ci:${PASSWORD}`);
    expect(await lastUse(host)).not.toBeNull();
    expect((await deploy('other', image)).log).toContain('may not be had from it');
  });

  it('is refused with a wrong password', async () => {
    const { host, image } = await registry();
    await credential('PUT', `registry/${host}`, { ...given, password: 'wrong' });
    expect((await deploy('acme', image)).log).toContain('may not be had from it');
  });

  it('is downloaded from another host if its registry says so, and that host is not sent the credential', async () => {
    const content = randomUUID();
    const store = await registry({ credential: null, content });
    const { host, image } = await registry({ redirectsTo: `http://${store.host}`, content });
    await credential('PUT', `registry/${host}`, given);
    expect((await deploy('acme', image)).log).toContain('Status: Downloaded newer image');
    expect(store.seen.length).toBeGreaterThan(0);
    expect(store.seen.filter((header) => header !== null)).toEqual([]);
  });
});
