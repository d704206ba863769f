import type { ContainerIdentity } from '../../container.ts';

/** Labels show that a thing is ours: anything without our id in `mooring.instance` is never touched. */
export const labels = {
  instance: 'mooring.instance',
  agent: 'mooring.agent',
  generation: 'mooring.generation',
  deployment: 'mooring.deployment',
  /** The agent's allowlist, as JSON. */
  allow: 'mooring.allow',
  /** The address of an agent with an allowlist on the listed network. */
  address: 'mooring.address',
  /** The label of containers that have a supervisor. */
  supervised: 'mooring.supervised',
  /** The message authentication code over the labels above. */
  code: 'mooring.code',
  /** The label that only the proxy of the listed network has. */
  proxy: 'mooring.proxy',
  /** The hash of the program that the proxy runs. */
  program: 'mooring.program',
  /** The name of the container that a build by the engine's own builder belongs to. */
  build: 'mooring.build',
} as const;

/** The read-only mount point of the helper program in every agent's container. */
export const helperMount = '/.mooring';
export const helperProgram = `${helperMount}/busybox`;
/** The first process of every agent's container, which does commands and files in it. */
export const supervisorProgram = `${helperMount}/supervisor`;

export type Labels = Record<string, string>;

const helperVolumePrefix = 'mooring-helper-';
/** Returns the name of the volume with the helper program that has this hash. */
export const helperVolumeName = (hash: string): string => helperVolumePrefix + hash;
/** Returns whether a mount is that of a helper volume. An image's own volumes have names that the engine makes up. */
export const isHelperVolume = (name: string | undefined): boolean => name?.startsWith(helperVolumePrefix) === true;

/** Returns whether the engine generated the name, as it does for volumes that an image declares. */
export const isAnonymousVolume = (name: string): boolean => /^[0-9a-f]{64}$/.test(name);

export const volumeName = (agentId: string): string => `mooring-${agentId}`;
/**
 * Agents on the open network can reach what the rules allow; those on a closed network have no way out; those on a listed network reach
 * only the proxy. The engine publishes no port of its internal networks, so where ports are published, the closed and the listed network
 * exist in a second variant, which only the rules close. Builds are on a network of their own, and reach the mirrors as well.
 */
export const networkKinds = ['open', 'closed', 'listed', 'published-closed', 'published-listed', 'builds'] as const;
export type NetworkKind = (typeof networkKinds)[number];
export type ListedKind = Extract<NetworkKind, 'listed' | 'published-listed'>;
export const networkName = (instance: string, kind: NetworkKind = 'open'): string =>
  kind === 'open' ? `mooring-${instance}` : `mooring-${instance}-${kind}`;
/** Returns the kind of the installation's network that has this name; undefined if the installation has no such network. */
export const networkKindOf = (instance: string, name: string | undefined): NetworkKind | undefined =>
  networkKinds.find((kind) => networkName(instance, kind) === name);
export const isListedKind = (kind: NetworkKind | undefined): kind is ListedKind => kind === 'listed' || kind === 'published-listed';
/** Returns whether the containers of such a network have no direct way out. */
export const isShut = (kind: NetworkKind): boolean => isListedKind(kind) || kind === 'closed' || kind === 'published-closed';
/** Returns whether the engine itself closes such a network. */
export const isInternal = (kind: NetworkKind): boolean => kind === 'closed' || kind === 'listed';
/** Returns the name of the network and the container of one build by the engine's own builder. */
export const buildName = (instance: string, id: string): string => `mooring-${instance}-build-${id}`;
export const proxyName = (instance: string): string => `mooring-${instance}-egress-proxy`;

/** Returns the agent whose volume has this name, or null. Volume events have no labels, so only the name can identify the agent. */
export function agentOfVolume(name: string): string | null {
  return isHelperVolume(name) ? null : (/^mooring-(.+)$/.exec(name)?.[1] ?? null);
}

/** Returns what the labels claim. Only `ContainerIdentities` says whether the claim is true. */
export function identityOf(found: Labels): ContainerIdentity {
  return {
    agentId: found[labels.agent] ?? '',
    generation: Number(found[labels.generation] ?? 0),
    deploymentId: found[labels.deployment] ?? '',
  };
}

export const hasLabels = (found: Labels | null | undefined, wanted: Labels): boolean =>
  Object.entries(wanted).every(([name, value]) => found?.[name] === value);

/** Returns the names of capabilities in one spelling, so that they can be compared. */
export const capabilitiesOf = (names: readonly string[] | null | undefined): string =>
  (names ?? [])
    .map((name) => name.replace(/^CAP_/, ''))
    .toSorted()
    .join();
