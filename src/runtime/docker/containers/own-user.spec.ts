import { randomUUID } from 'node:crypto';

import { testContainerKey } from '../../../../test/support/container-key.ts';
import { firstIdOf } from '../builder/builder-names.ts';
import { ContainerIdentities } from '../engine/container-identities.ts';
import { userFor } from './own-user.ts';

const identities = new ContainerIdentities('abcdef012345', testContainerKey('one'));
const agents = Array.from({ length: 2_000 }, () => `computer-${randomUUID()}`);
const idOf = (agentId: string, hasFewIds = false, of = identities) => Number(userFor({ group: 7 }, agentId, of, hasFewIds)?.split(':')[0]);

describe('the user of a container', () => {
  it('is the requested one, or the image’s', () => {
    expect(userFor('1000:1000', 'a', identities, false)).toBe('1000:1000');
    expect(userFor(null, 'a', identities, false)).toBe(null);
  });

  it('is its own one, the same at each start, with the requested group', () => {
    const [agent = ''] = agents;
    const user = userFor({ group: 1_000 }, agent, identities, false);
    expect(user).toMatch(/^\d+:1000$/);
    expect(userFor({ group: 1_000 }, agent, identities, false)).toBe(user);
    expect(new Set(agents.map((each) => idOf(each))).size).toBeGreaterThan(1_990);
  });

  it('is no user of the host or of builders, and no id that engines refuse', () => {
    const builder = firstIdOf({ instance: 'a', accountId: 'b', slot: 0, code: '00000000' });
    for (const agent of agents) expect([idOf(agent) > 524_288, idOf(agent) < builder]).toEqual([true, true]);
  });

  it('is one of the engine’s ids if it gives its containers few of them', () => {
    for (const agent of agents) expect([idOf(agent, true) >= 10_000, idOf(agent, true) < 60_000]).toEqual([true, true]);
  });

  it('can’t be computed, and so not met, by somebody who knows the installation and the agent, but not its key', () => {
    const others = new ContainerIdentities('abcdef012345', testContainerKey('other'));
    for (const agent of agents.slice(0, 20)) expect(idOf(agent)).not.toBe(idOf(agent, false, others));
  });
});
