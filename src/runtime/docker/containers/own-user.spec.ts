import { randomUUID } from 'node:crypto';

import { testContainerKey } from '../../../../test/support/container-key.ts';
import { firstIdOf } from '../builder/builder-names.ts';
import { ContainerIdentities } from '../engine/container-identities.ts';
import { userFor } from './own-user.ts';

const identities = new ContainerIdentities('abcdef012345', testContainerKey('one'));
const agents = Array.from({ length: 2_000 }, () => `computer-${randomUUID()}`);
const idOf = (agentId: string, hasFewIds = false, of = identities) => Number(userFor({ group: 7 }, agentId, of, hasFewIds)?.split(':')[0]);

describe('the user of a container', () => {
  it('is the one that is asked for, or the image’s', () => {
    expect(userFor('1000:1000', 'a', identities, false)).toBe('1000:1000');
    expect(userFor(null, 'a', identities, false)).toBe(null);
  });

  it('is one of its own, the same at each start, with the group that is asked for', () => {
    const [agent = ''] = agents;
    const user = userFor({ group: 1_000 }, agent, identities, false);
    expect(user).toMatch(/^\d+:1000$/);
    expect(userFor({ group: 1_000 }, agent, identities, false)).toBe(user);
    expect(new Set(agents.map((each) => idOf(each))).size).toBeGreaterThan(1_990);
  });

  it('is none of the host’s users, of builders, or beyond what engines take', () => {
    const builder = firstIdOf({ instance: 'a', accountId: 'b', slot: 0, code: '00000000' });
    for (const agent of agents) expect([idOf(agent) > 524_288, idOf(agent) < builder]).toEqual([true, true]);
  });

  it('is one that the engine has where it gives its containers few ids', () => {
    for (const agent of agents) expect([idOf(agent, true) >= 10_000, idOf(agent, true) < 60_000]).toEqual([true, true]);
  });

  it('can’t be computed, and so not met, by somebody who knows the installation and the agent, but not its key', () => {
    const others = new ContainerIdentities('abcdef012345', testContainerKey('other'));
    for (const agent of agents.slice(0, 20)) expect(idOf(agent)).not.toBe(idOf(agent, false, others));
  });
});
