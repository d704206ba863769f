import { DockerFixture } from '../../../../test/support/docker-fixture.ts';
import { networkName } from '../engine/names.ts';
import { networkOptions } from './bridges.ts';
import { subnetOf } from './links.ts';

describe('the network of agents', () => {
  let bed: DockerFixture;
  beforeEach(async () => (bed = await DockerFixture.open()));
  afterEach(() => bed.close());

  const range = async () => subnetOf(await bed.docker.getNetwork(networkName(bed.instance)).inspect());

  it('has so few addresses that an agent which asks for all of them fills no table of the host', async () => {
    await bed.running();
    expect(await range()).toMatch(/\/22$/);
  });

  it('that an earlier release made with more stays while an agent has it, and is made anew then', async () => {
    const Name = networkName(bed.instance);
    await bed.docker.createNetwork({ Name, Options: networkOptions('open'), Labels: { 'mooring.instance': bed.instance } });
    const larger = await range();
    expect(larger).not.toMatch(/\/22$/);
    const user = await bed.docker.createContainer({ Image: bed.image, HostConfig: { NetworkMode: Name } });
    await bed.runtime.create(bed.spec());
    expect(await range()).toBe(larger);
    await user.remove();
    const { containers } = await bed.runtime.list();
    for (const { handle } of containers) await bed.runtime.remove(handle);
    const another = bed.another();
    await another.create(bed.spec());
    await another.close();
    expect(await range()).toMatch(/\/22$/);
  });

  it('is made although two drafts of it stand that were made at once, of which one process was killed', async () => {
    const draft = { Name: `${networkName(bed.instance)}-draft`, CheckDuplicate: false, Labels: { 'mooring.instance': bed.instance } };
    for (let n = 0; n < 2; n += 1) await bed.docker.createNetwork(draft);
    await bed.runtime.create(bed.spec());
    expect(await range()).toMatch(/\/22$/);
    expect(await bed.docker.listNetworks({ filters: { name: [draft.Name] } })).toEqual([]);
  });

  it('that was removed while an agent slept is made anew, and so is the agent', async () => {
    const view = await bed.running();
    await bed.runtime.stop(view.handle, 0);
    await bed.docker.getNetwork(networkName(bed.instance)).remove();
    await expect(bed.runtime.start(view.handle, {})).rejects.toMatchObject({ name: 'ContainerGone' });
    await bed.running({ agentId: view.agentId, generation: 2 });
  });
});
