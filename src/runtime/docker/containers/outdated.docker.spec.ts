import { randomUUID } from 'node:crypto';

import { DockerFixture } from '../../../../test/support/docker-fixture.ts';
import { makeOutdated } from '../../../../test/support/outdated-container.ts';
import { ContainerGone } from '../../runtime.errors.ts';
import { outdatedName } from '../engine/container-identities.ts';
import { labels } from '../engine/names.ts';

describe('a container that an earlier release made', () => {
  let bed: DockerFixture;
  beforeAll(async () => (bed = await DockerFixture.open()));
  afterAll(() => bed.close());

  it('is found by every inspection, is not used, and is replaced by a new one with the same volume', async () => {
    const spec = bed.spec({ generation: 3 });
    const before = await bed.running(spec);
    await bed.run(before, 'echo kept > /data/a');
    const name = await makeOutdated(bed.docker, spec.agentId);
    const { Id } = await bed.docker.getContainer(name).inspect();
    const outdated = {
      agentId: spec.agentId,
      generation: 3,
      deploymentId: spec.deploymentId,
      handle: Id,
      state: 'running',
      outdated: true,
    };
    const runtime = bed.another();
    for (const wanted of [3, 4, undefined, 3]) expect((await runtime.inspect(spec.agentId, wanted)).containers).toMatchObject([outdated]);
    expect((await runtime.list()).containers).toContainEqual(outdated);
    expect((await runtime.inspect(spec.agentId, 3)).containers).toMatchObject([outdated]);
    await expect(runtime.address(spec, 8080)).rejects.toThrow(ContainerGone);
    const made = await runtime.create({ ...spec, generation: 4 });
    expect(made.outdated).toBeUndefined();
    await runtime.stop(Id, 0);
    await runtime.remove(Id);
    await runtime.start(made.handle, {});
    expect((await runtime.inspect(spec.agentId, 4)).containers).toMatchObject([{ handle: made.handle, state: 'running' }]);
    expect(await bed.output(made, 'cat /data/a')).toBe('kept\n');
    await runtime.close();
  });

  it('is found even if a replica of the earlier release creates it after the inspection', async () => {
    const view = await bed.running();
    const runtime = bed.another();
    await runtime.list();
    expect((await runtime.inspect(view.agentId, 1)).containers).toHaveLength(1);
    const abort = new AbortController();
    const events = runtime.events(abort.signal)[Symbol.asyncIterator]();
    expect((await events.next()).value).toEqual({ kind: 'lost' });
    await makeOutdated(bed.docker, view.agentId);
    for (let at = await events.next(); ; at = await events.next()) {
      const { containers } = await runtime.inspect(view.agentId, 1);
      expect(at.value).toEqual({ kind: 'changed', agentId: view.agentId });
      if (containers.some(({ outdated }) => outdated)) break;
    }
    abort.abort();
    await events.return?.(undefined);
    await runtime.close();
  });

  it('has exactly its old name: one of a build, which has only the labels of its image, is nobody’s', async () => {
    const identity = { agentId: randomUUID(), generation: 1, deploymentId: randomUUID() };
    const { [labels.code]: _, ...Labels } = bed.identities.labelsOf(identity);
    const unnamed = await bed.docker.createContainer({ Image: bed.image, Labels });
    const misnamed = await bed.docker.createContainer({ name: outdatedName({ ...identity, generation: 2 }), Image: bed.image, Labels });
    try {
      for (const wanted of [undefined, 1, 2]) expect((await bed.another().inspect(identity.agentId, wanted)).containers).toEqual([]);
      expect((await bed.runtime.list()).containers.filter(({ agentId }) => agentId === identity.agentId)).toEqual([]);
    } finally {
      for (const each of [unnamed, misnamed]) await each.remove({ force: true });
    }
  });
});
