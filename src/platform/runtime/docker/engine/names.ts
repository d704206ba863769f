import type { ContainerIdentity, ContainerName } from '../../runtime.ts';

/** Labels show that a thing is ours: anything without our id in `mooring.instance` is never touched. */
export const labels = {
  instance: 'mooring.instance',
  agent: 'mooring.agent',
  generation: 'mooring.generation',
  deployment: 'mooring.deployment',
  /** The names that an agent may reach, as JSON. */
  allow: 'mooring.allow',
  /** The address of such an agent on the listed network. */
  address: 'mooring.address',
  /** The label that only the proxy of the listed network has. */
  proxy: 'mooring.proxy',
  /** The hash of its program. */
  program: 'mooring.program',
} as const;

/** The read-only mount point of the helper program in every agent's container. */
export const helperMount = '/.mooring';
export const helperProgram = `${helperMount}/busybox`;

export type Labels = Record<string, string>;

export const containerName = ({ agentId, generation }: ContainerName): string => `mooring-${agentId}-g${generation}`;
const helperVolumePrefix = 'mooring-helper-';
/** Returns the name of the volume with the helper program that has this hash. */
export const helperVolumeName = (hash: string): string => helperVolumePrefix + hash;
/** Returns whether a mount is that of a helper volume. An image's own volumes have names that the engine makes up. */
export const isHelperVolume = (name: string | undefined): boolean => name?.startsWith(helperVolumePrefix) === true;

export const volumeName = (agentId: string): string => `mooring-${agentId}`;
/** Agents on the open network can reach what the rules allow; those on the closed one have no way out; those on the listed one reach the proxy alone.
 * Builds that have mirrors are on a network of their own. */
export const networkKinds = ['open', 'closed', 'listed', 'builds'] as const;
export type NetworkKind = (typeof networkKinds)[number];
export const networkName = (instance: string, kind: NetworkKind = 'open'): string =>
  kind === 'open' ? `mooring-${instance}` : `mooring-${instance}-${kind}`;
export const proxyName = (instance: string): string => `mooring-${instance}-egress-proxy`;

/** Returns the agent whose volume has this name, or null. Volume events have no labels, so only the name can tell. */
export function agentOfVolume(name: string): string | null {
  return isHelperVolume(name) ? null : (/^mooring-(.+)$/.exec(name)?.[1] ?? null);
}

export function containerLabels(instance: string, identity: ContainerIdentity): Labels {
  return {
    [labels.instance]: instance,
    [labels.agent]: identity.agentId,
    [labels.generation]: String(identity.generation),
    [labels.deployment]: identity.deploymentId,
  };
}

export function identityOf(found: Labels): ContainerIdentity {
  return {
    agentId: found[labels.agent] ?? '',
    generation: Number(found[labels.generation] ?? 0),
    deploymentId: found[labels.deployment] ?? '',
  };
}

/**
 * Returns whether a container has the name that we give to one with its labels. A container has the labels of its image too, which may be a
 * stranger's, and one that the engine makes for a step of a build has nothing else; its name is chosen by whoever creates it.
 */
export const isNamedByUs = (name: string, found: Labels): boolean => name.replace(/^\//, '') === containerName(identityOf(found));

export const hasLabels = (found: Labels | null | undefined, wanted: Labels): boolean =>
  Object.entries(wanted).every(([name, value]) => found?.[name] === value);
