import type { ContainerSpec } from '../../container.ts';
import type { ContainerIdentities } from '../engine/container-identities.ts';

interface IdRange {
  first: number;
  count: number;
}

/** The ids below those of builders, which neither users of a host nor containers have in practice. */
const IDS: IdRange = { first: 0x60000000, count: 0x10000000 };
/** The ids on engines that give their containers only 65,536 of them. */
const FEW_IDS: IdRange = { first: 10_000, count: 50_000 };

/**
 * Returns the user of a container, in the engine's form. The kernel counts many resources by user id, such as user namespaces and file
 * watchers, so a user who shares an id with others can exhaust all of theirs. The id is derived from the code of an agent, which nobody can
 * compute, so nobody can choose it.
 */
export function userFor(
  user: ContainerSpec['user'],
  agentId: string,
  identities: Pick<ContainerIdentities, 'userCodeOf'>,
  hasFewIds: boolean,
): string | null {
  if (user === null || typeof user === 'string') return user;
  const { first, count } = hasFewIds ? FEW_IDS : IDS;
  return `${first + (identities.userCodeOf(agentId) % count)}:${user.group}`;
}
