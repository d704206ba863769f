import { createHash, randomUUID } from 'node:crypto';

import { DockerFixture } from '../../../../test/support/docker-fixture.ts';
import type { ContainerView } from '../../container.ts';
import { outdatedName } from '../engine/container-identities.ts';

const GENERATION = 7;
/** The name server that the engine gives to each container. */
const NAME_SERVER = '127.0.0.11';

describe('the names that an agent can look up at the engine’s name server', () => {
  let bed: DockerFixture;
  let attacker: ContainerView;
  let victims: ContainerView[];
  beforeAll(async () => {
    bed = await DockerFixture.open();
    attacker = await bed.running();
    victims = await Promise.all(
      [GENERATION, GENERATION, 1].map((generation) => bed.running({ agentId: randomUUID(), deploymentId: randomUUID(), generation })),
    );
  });
  afterAll(() => bed.close());

  const ask = (name: string) => bed.output(attacker, `/bin/busybox nslookup ${name} ${NAME_SERVER}`);
  /** Returns the addresses that the name server has for the name. */
  const addressesOf = async (name: string) =>
    [...(await ask(name)).replace(/^Server:[^]*?\n\n/, '').matchAll(/^Address(?: \d+)?:\s+(\d+\.\d+\.\d+\.\d+)/gm)].map(
      ([, address]) => address,
    );
  const network = () => bed.docker.getNetwork(`mooring-${bed.instance}`).inspect();
  const addresses = async () =>
    Object.values((await network()).Containers as Record<string, { IPv4Address: string }>).map(({ IPv4Address }) =>
      IPv4Address.replace(/\/\d+$/, ''),
    );

  it('is no id, generation or deployment for any address', async () => {
    const all = await addresses();
    expect(all).toHaveLength(victims.length + 1);
    for (const address of all) {
      const answer = await ask(address);
      expect(answer).toMatch(/mooring-[0-9a-f]{32}\./);
      for (const { agentId, deploymentId } of victims) {
        expect(answer).not.toContain(agentId);
        expect(answer).not.toContain(agentId.slice(0, 8));
        expect(answer).not.toContain(deploymentId);
      }
      expect(answer).not.toContain(`g${GENERATION}`);
    }
  });

  it('is no address for an id that it knows, in any form without the installation’s key', async () => {
    for (const { agentId, generation } of victims) {
      const hash = createHash('sha256').update(agentId).digest('hex');
      const guesses = [
        agentId,
        `mooring-${agentId}`,
        outdatedName({ agentId, generation }),
        `agent-${agentId.slice(0, 8)}`,
        `agent-${hash.slice(0, 12)}`,
        `mooring-${hash.slice(0, 32)}`,
      ];
      for (const guess of guesses) expect({ guess, found: await addressesOf(guess) }).toEqual({ guess, found: [] });
      // The names that it really has are answered, so the guesses were asked where an answer could be had.
      expect(await addresses()).toContain((await addressesOf(bed.identities.nameOf({ agentId, generation })))[0]);
    }
  });

  it('is nothing else: the engine registers no name with an id', async () => {
    for (const { handle, agentId } of victims) {
      const { Config, NetworkSettings } = await bed.docker.getContainer(handle).inspect();
      const registered = Object.values(NetworkSettings.Networks).flatMap(
        ({ Aliases, DNSNames }: { Aliases?: string[]; DNSNames?: string[] }) => [...(Aliases ?? []), ...(DNSNames ?? [])],
      );
      expect(Config.Hostname).toBe(bed.identities.hostNameOf(agentId));
      expect(registered.filter((name) => name.includes(agentId.slice(0, 8)))).toEqual([]);
    }
  });
});
