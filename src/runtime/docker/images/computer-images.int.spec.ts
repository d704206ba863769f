import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import Dockerode from 'dockerode';

import { FakeDockerEngine } from '../../../../test/support/fake-docker-engine/fake-docker-engine.ts';
import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { RuntimeRefused } from '../../runtime.errors.ts';
import { OwnImages } from './own-images.ts';
import { ComputerImages } from './computer-images.ts';
import { importImage } from '../image-sources/registry.ts';
import { tarOf } from '../image-sources/build-context.ts';

const EARLIER = 'mooring-computer:0123456789abcdef';

describe('the image of computers', () => {
  let engine: FakeDockerEngine;
  let docker: Dockerode;
  let log: string[];

  beforeEach(async () => {
    engine = await FakeDockerEngine.start();
    docker = new Dockerode({ socketPath: engine.socket });
    log = [];
  });
  afterEach(() => engine.close());

  const ensure = (images: ComputerImages) => images.ensure((line) => log.push(line), timeoutSignal(10_000));
  const named = (name: string) =>
    importImage(docker, tarOf([{ name: 'a', type: 'file', mode: 0o644, content: name }]), name, [], timeoutSignal(10_000));

  it('is built once, from the Dockerfile and the programs beside it, and returned with its name and id', async () => {
    const images = new ComputerImages(docker, null);
    const [one, another] = await Promise.all([ensure(images), ensure(images)]);
    expect(another).toEqual(one);
    expect(await ensure(new ComputerImages(docker, null))).toEqual(one);
    expect(log).toEqual(['Making the image of computers, which is done once']);
    expect(one).toEqual({
      image: expect.stringMatching(/^sha256:/),
      name: expect.stringMatching(/^mooring-computer:[0-9a-f]{16}$/),
      command: ['/usr/local/bin/desktop'],
    });
    const { files } = engine.images.find(one.image) ?? {};
    expect([...(files?.keys() ?? [])]).toEqual(
      expect.arrayContaining(['Dockerfile', 'desktop/desktop', 'desktop/chromium', 'desktop/jwmrc', 'desktop/xresources']),
    );
  });

  it('is pulled if the operator names one', async () => {
    engine.images.publish('registry.example/computer:7', 'an image');
    expect(await ensure(new ComputerImages(docker, 'registry.example/computer:7'))).toMatchObject({ name: 'registry.example/computer:7' });
  });

  it('that can’t be built reports how the operator can provide it', async () => {
    docker.buildImage = () => Promise.reject(Object.assign(new Error('no route to the registry'), { statusCode: 500 }));
    const refused = ensure(new ComputerImages(docker, null));
    await expect(refused).rejects.toThrow(RuntimeRefused);
    await expect(refused).rejects.toThrow(/^There are no computers, since .* could not be downloaded\. .*MOORING_COMPUTER_IMAGE\.$/);
  });

  it('is looked for where the operator gives a path', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'mooring-tar-'));
    try {
      await expect(ensure(new ComputerImages(docker, join(folder, 'absent.tar')))).rejects.toThrow(
        /can’t be read \(MOORING_COMPUTER_IMAGE\)/,
      );
      writeFileSync(join(folder, 'present.tar'), 'no image');
      expect(await new ComputerImages(docker, join(folder, 'present.tar')).outdated()).toBeInstanceOf(Function);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('of an earlier release may be removed; the newest, and images that others named so, may not', async () => {
    const images = new ComputerImages(docker, null);
    const { image: newest } = await ensure(images);
    for (const name of [EARLIER, 'mooring-computer:latest', 'other/mooring-computer:0123456789abcdef']) await named(name);
    const own = new OwnImages(docker, 'abcdef012345', () => images.outdated());
    const listed = (await own.list()).own;
    expect(listed.map(({ names, builtOnAt }) => [names, builtOnAt])).toEqual([[[EARLIER], expect.any(Date)]]);
    expect(await own.remove(listed[0]?.id ?? '')).toBe(true);
    expect((await own.list()).own).toEqual([]);
    expect(await docker.getImage(newest).inspect()).toMatchObject({ Id: newest });
  });
});
