import { DeploymentFixture } from '../support/deployment-fixture.ts';

/** Cancels deployments of a running service at each stage, and checks what is left on the machine. */

let bed: DeploymentFixture;

/** A stage of a deployment: where the image comes from, and what makes the deployment wait at that stage. */
interface Moment {
  from: 'image' | 'repository';
  /** Prepares the deployment, and returns a function that resolves when it waits. */
  hold: (agentId: string) => Promise<() => Promise<unknown>> | (() => Promise<unknown>);
}

const held = (server: 'registry' | 'git', path: RegExp) => () => {
  bed.commit();
  const coming = bed[server].held.hold(path);
  return () => coming;
};

const moments: Record<string, Moment> = {
  'the registry is asked for the image': { from: 'image', hold: held('registry', /\/manifests\//) },
  'a layer is downloaded': { from: 'image', hold: held('registry', /\/blobs\//) },
  'the branches of the repository are asked for': { from: 'repository', hold: held('git', /\/info\/refs/) },
  'the commit is downloaded': { from: 'repository', hold: held('git', /\.git\/git-upload-pack$/) },
  'an instruction of the Dockerfile runs': {
    from: 'repository',
    hold: () => {
      bed.commit(['RUN ["sh", "-c", "echo canceled > /made"]', 'RUN ["sleep", "602"]']);
      return () => bed.running('sleep 602');
    },
  },
  'the container is not ready yet': {
    from: 'repository',
    hold: () => {
      bed.commit([], { 'www/healthz': { link: 'nothing' } });
      return () => bed.running('httpd');
    },
  },
  'a custom script runs': {
    from: 'repository',
    hold: async (agentId) => {
      bed.commit();
      const files = [{ path: 'slow.sh', content: '[ -e /www/next ] || sleep 603' }];
      expect((await bed.service.call('POST', `/api/v1/agents/${agentId}/files`, { files })).status).toBe(201);
      return () => bed.running('sleep 603');
    },
  },
};

describe('a deployment that is canceled', () => {
  beforeAll(async () => {
    bed = await DeploymentFixture.open();
    await bed.warmUp();
  });
  afterEach(() => bed.clear());
  afterAll(() => bed?.close());

  it.each(Object.entries(moments))('while %s: leaves nothing behind, and the next one works at once', async (_, { from, hold }) => {
    const agentId = await bed.agent(from);
    const isWaiting = await hold(agentId);
    const deploymentId = await bed.deploy(agentId);
    await isWaiting();
    const agent = `/api/v1/agents/${agentId}`;
    expect(await bed.service.call('POST', `${agent}/deploy`)).toMatchObject({ status: 409, body: { code: 'deploy_in_progress' } });
    expect(await bed.service.call('POST', `${agent}/deployments/${deploymentId}/cancel`)).toMatchObject({ status: 202 });
    expect(await bed.settled(agentId, deploymentId)).toMatchObject({ status: 'canceled', agent: 'stopped' });
    await bed.onlyNeeded(0);
    bed.registry.held.release();
    bed.git.held.release();
    bed.commit([], { 'www/next': 'next' });
    const next = await bed.deploy(agentId);
    expect(await bed.settled(agentId, next)).toMatchObject({ status: 'success', agent: 'active' });
    await bed.onlyNeeded(1);
  });
});
