import Dockerode from 'dockerode';

import { seenContainers, seenVolumes } from '../support/engine.ts';
import { killable, Kills } from '../support/kills.ts';
import { makeOutdated } from '../support/outdated-container.ts';
import { StartedService } from '../support/started-service.ts';
import { until } from '../support/until.ts';

/** More steps than a replacement has. */
const STEPS_MAX = 12;

describe('A service whose agents’ containers an earlier release made', () => {
  const docker = new Dockerode();
  let service: StartedService;
  let kills: Kills;

  beforeAll(async () => {
    service = await StartedService.start({ ...(await killable()), runtime: 'docker' });
    kills = new Kills(service);
  });
  afterAll(async () => {
    await kills?.cancel();
    await service?.dispose();
  });

  const call = (method: string, path: string, body?: unknown) => service.call(method, path, body, { prefer: 'wait=60' });
  const run = async (agentId: string, command: string) => (await call('POST', `/api/agents/${agentId}/exec`, { command })).body.stdout;
  const statusOf = async (agentId: string) => (await call('GET', `/api/v1/agents/${agentId}`)).body.status as string;

  async function agent(): Promise<string> {
    const { body } = await call('POST', '/api/agents', { name: 'older', templateId: 'hello', idleTtlSeconds: 0 });
    expect(body.status).toBe('active');
    expect(await run(body.agent_id, 'echo kept > /data/a')).toBe('');
    return body.agent_id;
  }

  /** Returns whether the agent is active in a single container, which this release created. */
  async function isReplaced(agentId: string, name: string): Promise<boolean> {
    const listed = await docker.listContainers({ all: true, filters: { label: [`mooring.agent=${agentId}`] } });
    const names = listed.flatMap(({ Names }) => Names);
    return names.length === 1 && !names.includes(`/${name}`) && (await statusOf(agentId)) === 'active';
  }

  async function replaced(agentId: string, name: string): Promise<void> {
    await until('the container was made anew', async () => ((await isReplaced(agentId, name)) ? true : undefined));
    expect(await seenVolumes(agentId)).toEqual([`mooring-${agentId}`]);
    expect(await run(agentId, 'cat /data/a')).toBe('kept\n');
    expect((await call('POST', `/api/agents/${agentId}/chat`, { message: 'well?' })).status).toBe(200);
  }

  it('creates the containers of active agents again, once, with their volumes, and counts no crash', async () => {
    const agentId = await agent();
    await service.stop();
    const name = await makeOutdated(docker, agentId);
    await service.start();
    await replaced(agentId, name);
    const [made] = await seenContainers(agentId);
    const types = async () =>
      (await call('GET', `/api/v1/agents/${agentId}/history?limit=200`)).body.map(({ type }: { type: string }) => type);
    expect(await types()).not.toContain('ContainerExited');
    await service.stop();
    await service.start();
    expect(await run(agentId, 'cat /data/a')).toBe('kept\n');
    expect(await seenContainers(agentId)).toEqual([made]);
  });

  it.each(['frozen', 'exited'])(
    'removes the container of a sleeping agent, which is %s, and wakes the agent in a new one',
    async (state) => {
      const agentId = await agent();
      await call('POST', `/api/agents/${agentId}/sleep`);
      await service.stop();
      const name = await makeOutdated(docker, agentId);
      if (state === 'exited') {
        await docker.getContainer(name).unpause();
        await docker.getContainer(name).stop();
      }
      await service.start();
      await until('the older container is gone', async () => ((await seenContainers(agentId)).length === 0 ? true : undefined));
      expect(await statusOf(agentId)).toBe('sleeping');
      await call('POST', `/api/agents/${agentId}/start`);
      await replaced(agentId, name);
    },
  );

  it('does so wherever it is killed meanwhile', async () => {
    const agentId = await agent();
    let step = 1;
    for (let died = true; died && step <= STEPS_MAX; step += 1) {
      await service.stop();
      const name = await makeOutdated(docker, agentId);
      await kills.order({ after: step, key: agentId, saga: 'deployments' });
      // It may die before it listens.
      await service.start().catch(() => undefined);
      died = await kills.diesAndComesBack(() => isReplaced(agentId, name));
      await replaced(agentId, name);
    }
    expect(step).toBeGreaterThan(4);
    expect(step).toBeLessThanOrEqual(STEPS_MAX);
  });
});
