import { randomUUID } from 'node:crypto';

import { AgentFixture } from '../support/agent-fixture.ts';
import { fixtureRuntime } from '../support/fixture-runtime.ts';
import { DockerFixture } from '../support/docker-fixture.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { runningFeatures } from '../support/features.ts';
import type { TestServer } from '../support/http-server.ts';
import { type RegistryOptions, TestRegistry } from '../support/test-registry.ts';

const PASSWORD = 'canary-4711/+very?secret';

let server: TestServer;
const ask = (method: string, path: string, json?: unknown, credential = 'mk_acme') =>
  server.request(method, path, { credential, ...(json === undefined ? {} : { json }) });
const credential = (method: string, place = '', json?: unknown) =>
  ask(method, `/api/v1/source-credentials${place === '' ? '' : `/${place}`}`, json);
const given = { username: 'ci', password: PASSWORD };

describe('an image of a registry that requires a credential', () => {
  let bed: DockerFixture;
  let agents: AgentFixture;
  const registries: TestRegistry[] = [];
  const pulled = new Set<string>();

  const registry = async (more: Partial<RegistryOptions> = {}): Promise<TestRegistry> => {
    const started = await TestRegistry.start({ credential: `ci:${PASSWORD}`, ...more });
    registries.push(started);
    return started;
  };

  beforeAll(async () => {
    bed = await DockerFixture.open();
    const runtime = fixtureRuntime(bed);
    server = await startFeatureServer({ ...runningFeatures(runtime), environment: { MOORING_ALLOW_PRIVATE_SOURCES: '127.0.0.1' } });
    agents = new AgentFixture(server);
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

  it('is downloaded from another host if its registry redirects there, and that host does not get the credential', async () => {
    const content = randomUUID();
    const store = await registry({ credential: null, content });
    // Engines may take another port of the same name for the same host.
    const { host, image } = await registry({ redirectsTo: `http://${store.host.replace('127.0.0.1', 'localhost')}`, content });
    await credential('PUT', `registry/${host}`, given);
    expect((await deploy('acme', image)).log).toContain('Status: Downloaded newer image');
    expect(store.seen.length).toBeGreaterThan(0);
    expect(store.seen.filter((header) => header !== null)).toEqual([]);
  });
});
