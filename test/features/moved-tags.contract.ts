import { randomUUID } from 'node:crypto';

import type Dockerode from 'dockerode';

import { AgentFixture } from '../support/agent-fixture.ts';
import type { TestServer } from '../support/http-server.ts';
import { answering } from '../support/answering-image.ts';
import { timeoutSignal } from '../../src/kernel/async/timeout-signal.ts';
import { tarOf } from '../../src/runtime/docker/image-sources/build-context.ts';
import { importImage, pull } from '../../src/runtime/docker/image-sources/registry.ts';
import { ImageSweep } from '../../src/features/deployments/images/image-sweep.service.ts';

/** A service on an engine, and a registry from which that pulls. */
export interface MovedTagsBed {
  docker: Dockerode;
  server: TestServer;
  /** The name of an image that the operator has made on the engine, and shares. */
  shared: string;
  /** Publishes an image with this content under a tag, which may have named another image before. Returns the image's reference. */
  publish(tag: string, content: string): Promise<string>;
}

/** Holds for every store of images: an agent's image is what it was deployed from, whatever its tag means since. */
export function movedTags(open: () => Promise<MovedTagsBed>, close: () => Promise<void>): void {
  let bed: MovedTagsBed;
  let agents: AgentFixture;
  beforeAll(async () => {
    bed = await open();
    agents = new AgentFixture(bed.server);
    await agents.account('acme', 50);
  });
  /** The ids of the images that nobody but this file knows. */
  const made = new Set<string>();
  afterAll(async () => {
    for (const id of made) if (await isThere(id)) await bed.docker.getImage(id).remove({ force: true });
    await close();
  });

  const call = (method: string, path: string, json?: unknown) =>
    bed.server.request(method, `/api/v1/agents/${path}`, { credential: 'mk_acme', json, headers: { prefer: 'wait=60' } });
  const isThere = (id: string) =>
    bed.docker
      .getImage(id)
      .inspect()
      .then(
        () => true,
        () => false,
      );

  async function does(agentId: string, what: string, json?: unknown): Promise<void> {
    const { json: answer } = await call('POST', `${agentId}/${what}`, json);
    expect([answer.status, answer.message]).toEqual([what === 'stop' ? 'stopped' : 'active', expect.any(String)]);
  }
  /** Returns the id of the image that the agent runs. */
  async function runs(agentId: string): Promise<string | undefined> {
    const listed = await bed.docker.listContainers({ filters: { label: [`mooring.agent=${agentId}`] } });
    return listed[0]?.ImageID;
  }
  async function deployed(image: string): Promise<{ agentId: string; id: string }> {
    const agentId = await agents.created('acme', { image: 'docker', image_name: image });
    await does(agentId, 'deploy', { image_name: image });
    return { agentId, id: (await runs(agentId)) ?? '' };
  }
  const latest = async (agentId: string) =>
    ((await call('GET', `${agentId}/deployments`)).json as { id: string; status: string; build_log: string }[])[0];
  const remove = async (agentId: string) => expect((await call('DELETE', agentId)).status).toBe(204);

  async function noted(name: string): Promise<string> {
    made.add((await bed.docker.getImage(name).inspect()).Id);
    return name;
  }
  /** Has the operator make the shared image anew. */
  async function remake(): Promise<string> {
    const changes = [`CMD ${JSON.stringify(answering.command)}`, `LABEL made=${randomUUID()}`];
    await importImage(bed.docker, tarOf(await answering.files('ok')), bed.shared, changes, timeoutSignal(60_000));
    return noted(bed.shared);
  }
  /** Publishes another image under the tag, and has somebody pull it. */
  async function republish(): Promise<string> {
    const reference = await bed.publish('moving', randomUUID());
    await pull(bed.docker, reference, () => undefined, timeoutSignal(60_000));
    return noted(reference);
  }

  describe.each([
    ['was given to another image by the operator', remake],
    ['was published and pulled anew', republish],
  ])('an agent whose image’s tag %s', (_, move) => {
    it('runs its own image after a restart, and after a stop and a start', async () => {
      const { agentId, id } = await deployed(await move());
      await move();
      await does(agentId, 'restart');
      expect(await runs(agentId)).toBe(id);
      await does(agentId, 'stop');
      await does(agentId, 'start');
      expect(await runs(agentId)).toBe(id);
      await remove(agentId);
    });

    it('goes back to its earlier image without a pull', async () => {
      const { agentId, id } = await deployed(await move());
      await does(agentId, 'deploy', { image_name: await move() });
      expect(await runs(agentId)).not.toBe(id);
      await does(agentId, 'rollback');
      expect(await runs(agentId)).toBe(id);
      expect((await latest(agentId))?.build_log).not.toContain('Pulling');
      await remove(agentId);
    });
  });

  it('an image whose content is gone is pulled anew by its digest, although its tag means another one', async () => {
    const { agentId, id } = await deployed(await republish());
    await does(agentId, 'deploy', { image_name: await republish() });
    await bed.docker.getImage(id).remove({ force: true });
    expect(await isThere(id)).toBe(false);
    await does(agentId, 'rollback');
    expect(await runs(agentId)).toBe(id);
    expect((await latest(agentId))?.build_log).toContain('Status: Downloaded newer image');
    await remove(agentId);
  });

  it('an agent is started with its own image, pulled anew, if the engine has lost it', async () => {
    const { agentId, id } = await deployed(await republish());
    await does(agentId, 'stop');
    await republish();
    for (const { Id } of await bed.docker.listContainers({ all: true, filters: { label: [`mooring.agent=${agentId}`] } }))
      await bed.docker.getContainer(Id).remove({ force: true });
    await bed.docker.getImage(id).remove({ force: true });
    await does(agentId, 'start');
    expect(await runs(agentId)).toBe(id);
    await remove(agentId);
  });

  it('of seven deployments the images of the newest five stay, until the agent is deleted', async () => {
    const { agentId, id } = await deployed(await bed.publish('v1', randomUUID()));
    const versions = [id];
    while (versions.length < 7) {
      await does(agentId, 'deploy', { image_name: await bed.publish(`v${versions.length + 1}`, randomUUID()) });
      versions.push((await runs(agentId)) ?? '');
    }
    const sweep = () => bed.server.app.get(ImageSweep, { strict: false }).run(() => undefined);
    await sweep();
    expect(await Promise.all(versions.map(isThere))).toEqual([false, false, true, true, true, true, true]);
    await remove(agentId);
    await sweep();
    expect(await Promise.all(versions.map(isThere))).toEqual([false, false, false, false, false, false, false]);
  });
}
