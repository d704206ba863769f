import { lookup } from 'node:dns/promises';

import Dockerode from 'dockerode';

import { runningFeatures } from '../../../../test/support/features.ts';
import { AgentFixture } from '../../../../test/support/agent-fixture.ts';
import { closeServer, runtimeOn } from '../../../../test/support/engine-runtime.ts';
import { FakeDockerEngine } from '../../../../test/support/fake-docker-engine/fake-docker-engine.ts';
import { startFeatureServer } from '../../../../test/support/feature-server.ts';
import { hostileImageNames, privateImageNames } from '../../../../test/support/hostile-images.ts';
import { expectProblem } from '../../../../test/support/sample-server.ts';
import type { TestServer } from '../../../../test/support/http-server.ts';

/** The images that the engine has from the start, as if they had been pulled or built there. */
const SECRET = 'somebody/secret:1';
const SHARED = 'operator/shared:2';
const SHARED_TAG = 'operator/tagged:1';
const OTHER_TAG = 'operator/tagged:2';
const ALIKE = 'operator/shared-not:1';
const NOWHERE = 'nowhere.example';

/** Returns the addresses that the system's resolver finds, without a question to a name server. */
async function addressesOf(host: string): Promise<string[]> {
  if (host === NOWHERE) return [];
  return (await lookup(host, { all: true })).map(({ address }) => address);
}

let engine: FakeDockerEngine;
let server: TestServer;
let bed: AgentFixture;

beforeAll(async () => {
  engine = await FakeDockerEngine.start({ trickling: ['trickle/image:1'] });
  for (const name of [SECRET, SHARED, SHARED_TAG, OTHER_TAG, ALIKE]) engine.images.pulled(name);
  const runtime = runtimeOn(new Dockerode({ socketPath: engine.socket }), 'abcdef012345', addressesOf);
  server = await startFeatureServer({
    ...runningFeatures(runtime),
    environment: { MOORING_SHARED_IMAGES: `operator/shared,${SHARED_TAG}` },
  });
  bed = new AgentFixture(server);
  for (const account of ['acme', 'other']) await bed.account(account, 100);
});

afterAll(async () => {
  await closeServer(server);
  await engine?.close();
});

const call = (account: string, method: string, path: string, json?: unknown, headers: Record<string, string> = {}) =>
  server.request(method, path, { credential: `mk_${account}`, json, headers });

/** Deploys the image to a new agent of the account, and returns the deployment's status, log and message. */
async function deployed(account: string, imageName: string): Promise<{ status: string; log: string; message: string }> {
  const agentId = await bed.created(account, { image: 'docker', image_name: imageName, template_id: null });
  await call(account, 'POST', `/api/v1/agents/${agentId}/deploy`, undefined, { prefer: 'wait=20' });
  const [deployment] = (await call(account, 'GET', `/api/v1/agents/${agentId}/deployments`)).json;
  return { status: deployment.status, log: deployment.build_log, message: deployment.message };
}

describe('an image that the engine has', () => {
  it('is used without a pull by the account that has pulled it, and by no other', async () => {
    expect((await deployed('acme', SECRET)).log).toContain(`Pulling ${SECRET}`);
    const again = await deployed('acme', SECRET);
    expect(again.status).toBe('success');
    expect(again.log).toContain(`Using ${SECRET}, which the engine has`);
    expect((await deployed('other', SECRET)).log).toContain(`Pulling ${SECRET}`);
  });

  it('is used without a pull by every account if the operator shares it, whatever its tag', async () => {
    for (const account of ['acme', 'other']) {
      const { log, status } = await deployed(account, SHARED);
      expect(status).toBe('success');
      expect(log).toContain(`Using ${SHARED}, which the engine has`);
    }
  });

  it('is used without a pull under the one tag that the operator shares, and under no other', async () => {
    expect((await deployed('acme', SHARED_TAG)).log).toContain(`Using ${SHARED_TAG}, which the engine has`);
    expect((await deployed('acme', OTHER_TAG)).log).toContain(`Pulling ${OTHER_TAG}`);
  });

  it('is pulled if its name only begins like one that the operator shares', async () => {
    expect((await deployed('acme', ALIKE)).log).toContain(`Pulling ${ALIKE}`);
  });
});

describe('an image whose registry’s name leads nowhere', () => {
  it('is not pulled, because the engine could find a private address that the service did not find', async () => {
    const { status, message, log } = await deployed('acme', `${NOWHERE}/x:1`);
    expect([status, message]).toEqual(['failed', `The registry of ${NOWHERE}/x:1 was not found.`]);
    expect(log).not.toContain('Pulling');
  });
});

describe('a variable that leads to a private address', () => {
  it('is told in the build log, with what allows it', async () => {
    const agentId = await bed.created('acme', { image: 'docker', image_name: SHARED, template_id: null });
    await call('acme', 'POST', `/api/v1/agents/${agentId}/env`, { key: 'OPENAI_BASE_URL', value: 'http://192.168.7.9:11434/canary' });
    await call('acme', 'POST', `/api/v1/agents/${agentId}/deploy`, undefined, { prefer: 'wait=20' });
    const [deployment] = (await call('acme', 'GET', `/api/v1/agents/${agentId}/deployments`)).json;
    expect(deployment.build_log).toMatch(/OPENAI_BASE_URL leads to 192\.168\.7\.9.*MOORING_AGENT_EGRESS_PRIVATE=192\.168\.7\.9:11434/);
    expect(deployment.build_log).not.toContain('canary');
  });
});

describe('a hostile name of an image', () => {
  it('is refused wherever it can be given, the field is named, and nothing is fetched or written', async () => {
    const agentId = await bed.created('acme', { image: 'docker', image_name: SHARED, template_id: null });
    const before = await bed.types(agentId);
    expect(hostileImageNames.length + privateImageNames.length).toBeGreaterThanOrEqual(40);
    for (const image_name of [...hostileImageNames, ...privateImageNames]) {
      const ways = [
        ['image_name', await call('acme', 'PATCH', `/api/v1/agents/${agentId}`, { image_name })],
        ['image_name', await call('acme', 'POST', `/api/v1/agents/${agentId}/deploy`, { image_name })],
        ['imageName', await call('acme', 'POST', '/api/deploy', { agentId, source: 'docker', imageName: image_name })],
      ] as const;
      for (const [field, answer] of ways) {
        const fields = (answer.json.errors ?? []).map((each: { field: string }) => each.field.toLowerCase().replace('_', ''));
        expect([image_name, field, answer.status, fields]).toEqual([image_name, field, 400, ['imagename']]);
        expectProblem(answer, 400, 'invalid_request');
        if (privateImageNames.includes(image_name)) expect(answer.json.detail).toContain('private address');
      }
    }
    expect(await bed.types(agentId)).toEqual(before);
    for (const name of [...hostileImageNames, ...privateImageNames]) expect(engine.images.find(name)).toBeUndefined();
  });
});
