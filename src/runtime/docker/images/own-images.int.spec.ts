import Dockerode from 'dockerode';

import { FakeDockerEngine } from '../../../../test/support/fake-docker-engine/fake-docker-engine.ts';
import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { digestOfPin } from '../../../kernel/network/image-reference.ts';
import { findImage, findPinned, pull } from '../image-sources/registry.ts';
import { OwnImages } from './own-images.ts';

const NAMES = ['registry.example/team/agent:1', 'registry.example/team/agent:latest', 'other.example/agent:1'];

describe.each(['graph', 'containerd'] as const)('an image under three names, in the %s store', (store) => {
  let engine: FakeDockerEngine;
  let docker: Dockerode;
  let own: OwnImages;

  beforeEach(async () => {
    engine = await FakeDockerEngine.start({ store });
    docker = new Dockerode({ socketPath: engine.socket });
    own = new OwnImages(docker, 'abcdef012345');
    for (const name of NAMES) {
      engine.images.publish(name, 'the same content');
      const before = await own.beforePull();
      await pull(docker, name, () => undefined, timeoutSignal(10_000));
      await own.markPulled(await docker.getImage(name).inspect(), name, before);
    }
  });
  afterEach(() => engine.close());

  const image = () => docker.getImage(NAMES[0] ?? '').inspect();

  it('is found by each digest by which an agent may have pinned it', async () => {
    const { Id, RepoDigests } = await image();
    const [stored, ...others] = (await own.list()).own;
    expect(others).toEqual([]);
    expect(stored?.digests).toEqual(expect.arrayContaining([Id, ...RepoDigests.map(digestOfPin)]));
  });

  it('is found by its pin as long as it exists, and not afterwards', async () => {
    const { Id, RepoDigests } = await image();
    const pin = RepoDigests.find((digest) => digest.startsWith('other.example')) ?? '';
    // In the graph store the last tag takes the digest along, so that the tag moves instead.
    if (store === 'graph') engine.images.publish(NAMES[2] ?? '', 'another content');
    if (store === 'graph') await pull(docker, NAMES[2] ?? '', () => undefined, timeoutSignal(10_000));
    else await docker.getImage(NAMES[2] ?? '').remove();
    expect(await findImage(docker, pin)).toEqual(store === 'graph' ? expect.objectContaining({ Id }) : null);
    expect(await findPinned(docker, pin)).toMatchObject({ Id });
    await docker.getImage(Id).remove({ force: true });
    expect(await findPinned(docker, pin)).toBeNull();
  });

  it('is still ours after a kill at each call of a removal, and is gone when the removal is repeated', async () => {
    const { Id } = await image();
    const getImage = docker.getImage.bind(docker);
    for (let calls = 0, isOver = false; !isOver; calls += 1) {
      let left = calls;
      docker.getImage = (name: string) => {
        const one = getImage(name);
        const remove = one.remove.bind(one);
        one.remove = async (...given: []) => {
          if (left-- <= 0) throw new Error('the service was killed');
          return remove(...given);
        };
        return one;
      };
      isOver = await own.remove(Id).catch(() => false);
      expect((await own.list()).own.map(({ id }) => id)).toEqual(isOver ? [] : [Id]);
    }
    expect(await findImage(docker, Id)).toBeNull();
  });
});
