import { randomUUID } from 'node:crypto';
import { DockerFixture } from '../../../test/support/docker-fixture.ts';
import { ContainerGone, RuntimeRefused } from '../runtime.errors.ts';
import { outdatedName } from './engine/container-identities.ts';
import { labels, volumeName } from './engine/names.ts';

describe('what is ours on the engine', () => {
  let bed: DockerFixture;
  beforeAll(async () => (bed = await DockerFixture.open()));
  afterAll(() => bed.close());

  const network = () => bed.docker.getNetwork(`mooring-${bed.instance}`);

  it('does not include a container with the name alone, or with the name and a wrong code', async () => {
    const spec = bed.spec();
    const own = bed.identities.labelsOf(spec);
    const { [labels.code]: code = '', ...older } = own;
    for (const Labels of [{}, older, { ...own, [labels.code]: '0'.repeat(code.length) }, { ...own, [labels.allow]: '["evil.example"]' }]) {
      const foreign = await bed.docker.createContainer({ name: bed.identities.nameOf(spec), Image: bed.image, Labels });
      try {
        await expect(bed.runtime.create(spec)).rejects.toThrow(/A container named mooring-\S+ exists that this installation did not make/);
        expect((await foreign.inspect()).State.Status).toBe('created');
        expect((await bed.runtime.inspect(spec.agentId)).containers).toEqual([]);
        expect((await bed.runtime.inspect(spec.agentId, 1)).containers).toEqual([]);
        expect((await bed.runtime.list()).containers.filter(({ agentId }) => agentId === spec.agentId)).toEqual([]);
        await foreign.start();
        await expect(bed.runtime.address(spec, 8080)).rejects.toThrow(ContainerGone);
      } finally {
        await foreign.remove({ force: true });
      }
    }
  });

  it('does not include a container that only has the labels, as one of an image with such labels has', async () => {
    const made = await bed.runtime.create(bed.spec({ generation: 2 }));
    const { Config } = await bed.docker.getContainer(made.handle).inspect();
    const events = bed.runtime.events(new AbortController().signal)[Symbol.asyncIterator]();
    expect((await events.next()).value).toEqual({ kind: 'lost' });
    const forged = await bed.docker.createContainer({ Image: bed.image, Labels: Config.Labels, Cmd: ['/bin/busybox', 'true'] });
    try {
      await forged.start();
      await forged.wait();
      expect((await bed.runtime.list()).containers.filter(({ agentId }) => agentId === made.agentId)).toHaveLength(1);
      for (const wanted of [undefined, 2, 3]) expect((await bed.runtime.inspect(made.agentId, wanted)).containers).toEqual([made]);
      // Another agent's event shows that those before it have come. Volumes of others on the engine may be told, too.
      const another = await bed.runtime.create(bed.spec());
      const told: string[] = [];
      while (told.at(-1) !== another.agentId) told.push(((await events.next()).value as { agentId: string }).agentId);
      expect(told).not.toContain(made.agentId);
    } finally {
      await forged.remove({ force: true });
      await events.return?.(undefined);
    }
  });

  it('runs commands in the agent’s own container, while others with its labels run beside it', async () => {
    const victim = await bed.running({ generation: 2 });
    const { Config, HostConfig } = await bed.docker.getContainer(victim.handle).inspect();
    const { [labels.code]: _, ...older } = Config.Labels;
    const name = `mooring-test-${randomUUID()}`;
    const forgeries = [
      { Labels: Config.Labels },
      { Labels: Config.Labels, name },
      { Labels: Config.Labels, name: outdatedName(victim) },
      { Labels: older },
      { Labels: { ...older, [labels.generation]: '3' } },
    ];
    const forged = await Promise.all(
      forgeries.map(async (each) => {
        // They even have the helper program, so that a command in them would be answered.
        const container = await bed.docker.createContainer({ ...each, Image: bed.image, Cmd: ['sleep', '300'], HostConfig });
        await container.start();
        return container;
      }),
    );
    try {
      for (const runtime of [bed.runtime, bed.another()])
        for (const wanted of [undefined, 2, 3]) {
          const { containers } = await runtime.inspect(victim.agentId, wanted);
          expect(containers.map(({ handle }) => handle)).toEqual([victim.handle]);
        }
      const [{ handle } = victim] = (await bed.runtime.inspect(victim.agentId, 2)).containers;
      const { stdout } = await bed.runtime.exec(handle, { argv: ['hostname'], timeoutMs: 20_000, outputLimitBytes: 1_000 });
      expect(stdout.toString().trim()).toBe(bed.identities.hostNameOf(victim.agentId));
      const found = await bed.runtime.address({ agentId: victim.agentId, generation: 2 }, 8080);
      const { NetworkSettings } = await bed.docker.getContainer(victim.handle).inspect();
      expect(found.host).toBe(NetworkSettings.Networks[`mooring-${bed.instance}`]?.IPAddress);
    } finally {
      await Promise.all(forged.map((each) => each.remove({ force: true })));
    }
  });

  it('refuses an image with labels in the service’s name', async () => {
    const image = await bed.imageWith(['LABEL mooring.allow=x', 'CMD ["sleep", "300"]']);
    await expect(bed.runtime.create(bed.spec({ image }))).rejects.toThrow('The image has the label mooring.allow.');
  });

  it('includes an unknown container that keeps a volume from being removed', async () => {
    const spec = bed.spec({ generation: 5 });
    expect(await bed.runtime.inspect(spec.agentId, 5)).toEqual({ containers: [], volume: false });
    const late = await bed.another().create({ ...spec, generation: 4 });
    await expect(bed.runtime.removeVolume(spec.agentId)).rejects.toThrow(RuntimeRefused);
    expect((await bed.runtime.inspect(spec.agentId, 5)).containers).toEqual([late]);
    await bed.runtime.remove(late.handle);
    await bed.runtime.removeVolume(spec.agentId);
    expect(await bed.runtime.inspect(spec.agentId, 5)).toEqual({ containers: [], volume: false });
  });

  it('is looked up by name, without a list of all containers, if the wanted generation is given', async () => {
    const made = await bed.runtime.create(bed.spec({ generation: 3 }));
    const listing = jest.spyOn(bed.docker, 'listContainers');
    try {
      expect(await bed.runtime.inspect(made.agentId, 3)).toEqual({ containers: [made], volume: true });
      expect(listing).not.toHaveBeenCalled();
    } finally {
      listing.mockRestore();
    }
  });

  it('does not include a stranger’s volume of the same name', async () => {
    const spec = bed.spec();
    const foreign = await bed.docker.createVolume({ Name: volumeName(spec.agentId), Labels: { 'mooring.instance': 'another' } });
    try {
      await expect(bed.runtime.ensureVolume(spec.agentId)).rejects.toThrow(RuntimeRefused);
      await expect(bed.runtime.create(spec)).rejects.toThrow(RuntimeRefused);
      await bed.runtime.removeVolume(spec.agentId);
      expect((await bed.runtime.inspect(spec.agentId)).volume).toBe(false);
      expect((await foreign.inspect()).Labels).toEqual({ 'mooring.instance': 'another' });
    } finally {
      await foreign.remove();
    }
  });

  it('includes a container that a crash left under the name, and replaces it', async () => {
    const spec = bed.spec();
    const old = await bed.runtime.create({ ...spec, deploymentId: 'an earlier one' });
    await bed.runtime.start(old.handle, {});
    const made = await bed.runtime.create(spec);
    expect(made.handle).not.toBe(old.handle);
    expect((await bed.runtime.inspect(spec.agentId)).containers).toEqual([made]);
  });

  it('survives somebody’s removal of the network', async () => {
    const first = await bed.runtime.create(bed.spec());
    for (const { handle } of (await bed.runtime.list()).containers) if (handle !== first.handle) await bed.runtime.remove(handle);
    await network().remove();
    await bed.runtime.start(first.handle, {});
    expect((await bed.runtime.address(first, 8080)).host).toMatch(/^\d+\./);
    await bed.runtime.remove(first.handle);
    await network().remove();
    await bed.running();
    expect((await network().inspect()).Options).toEqual({ 'com.docker.network.bridge.enable_icc': 'false' });
  });

  it('is one network for any number of concurrent calls', async () => {
    for (const { handle } of (await bed.runtime.list()).containers) await bed.runtime.remove(handle);
    await network().remove();
    await Promise.all([bed.runtime, bed.another(), bed.another()].map((runtime) => runtime.create(bed.spec())));
    expect(await bed.docker.listNetworks({ filters: { name: [`mooring-${bed.instance}`] } })).toHaveLength(1);
  });

  it('survives somebody’s removal of the helper volume', async () => {
    for (const { handle } of (await bed.runtime.list()).containers) await bed.runtime.remove(handle);
    const { Volumes } = await bed.docker.listVolumes({
      filters: { label: [`mooring.instance=${bed.instance}`], name: ['mooring-helper-'] },
    });
    expect(Volumes).toHaveLength(1);
    await bed.docker.getVolume(Volumes[0]?.Name ?? '').remove();
    expect(await bed.output(await bed.running(), 'echo well')).toBe('well\n');
  });

  it('is removed with the anonymous volumes that an image declares, except for the agent’s own', async () => {
    const image = await bed.imageWith(['VOLUME /cache', 'CMD ["sleep", "300"]']);
    const view = await bed.running({ image });
    const { Mounts } = await bed.docker.getContainer(view.handle).inspect();
    const nameless = Mounts.find(({ Destination }) => Destination === '/cache')?.Name ?? '';
    await bed.run(view, 'echo kept > /data/a');
    await bed.runtime.remove(view.handle);
    await expect(bed.docker.getVolume(nameless).inspect()).rejects.toThrow(/no such volume/i);
    expect(await bed.runtime.inspect(view.agentId)).toEqual({ containers: [], volume: true });
    const next = await bed.running({ agentId: view.agentId, generation: 2, image });
    expect(await bed.output(next, 'cat /data/a')).toBe('kept\n');
  });

  it('leaves the host alone where an image’s mount point is a link', async () => {
    const image = await bed.imageWith(['CMD ["sleep", "300"]']);
    const container = await bed.docker.createContainer({
      Image: image,
      Cmd: ['/bin/busybox', 'sh', '-c', 'busybox mkdir -p /opt && busybox ln -s /opt /data'],
    });
    await container.start();
    await container.wait();
    const linked = `mooring-test-${bed.instance}:linked`;
    await container.commit({ repo: `mooring-test-${bed.instance}`, tag: 'linked' });
    await container.remove();
    const view = await bed.running({ image: linked, command: ['/bin/busybox', 'sleep', '300'], user: '10001' });
    await bed.run(view, 'echo mine > /data/mooring-was-here');
    await expect(import('node:fs/promises').then(({ stat }) => stat('/opt/mooring-was-here'))).rejects.toThrow('ENOENT');
    await bed.runtime.remove(view.handle);
    await bed.docker.getImage(linked).remove({ force: true });
  });
});
