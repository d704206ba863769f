import { DockerFixture } from '../support/docker-fixture.ts';
import { collectEvidence } from './evidence.ts';

it('names the containers of a Docker runtime with their states until it is closed', async () => {
  const bed = await DockerFixture.open();
  try {
    const { handle } = await bed.running();
    expect(await collectEvidence()).toMatch(/^-- Docker runtime\n1 containers:\n\S+ running: Up /);
    await bed.docker.getContainer(handle).kill();
    expect(await collectEvidence()).toContain(' exited: Exited (137)');
  } finally {
    await bed.close();
  }
  expect(await collectEvidence()).toBe('');
});
