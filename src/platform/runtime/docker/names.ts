import type { ContainerIdentity, ContainerName } from '../runtime.ts';

/** Labels are what makes a thing ours: whatever lacks `mooring.instance` with our id is never touched. */
export const labels = {
  instance: 'mooring.instance',
  agent: 'mooring.agent',
  generation: 'mooring.generation',
  deployment: 'mooring.deployment',
} as const;

/** Where the helper program is mounted, read-only, in every agent's container. */
export const helperMount = '/.mooring';
export const helperProgram = `${helperMount}/busybox`;

export type Labels = Record<string, string>;

export const containerName = ({ agentId, generation }: ContainerName): string => `mooring-${agentId}-g${generation}`;
export const volumeName = (agentId: string): string => `mooring-${agentId}`;
/** Agents on the open network have a way out, as far as the rules let them; those on the closed one have none. */
export type NetworkKind = 'open' | 'closed';
export const networkName = (instance: string, kind: NetworkKind = 'open'): string =>
  kind === 'open' ? `mooring-${instance}` : `mooring-${instance}-closed`;

/** The agent whose volume bears this name, or null. Volume events carry no labels, so the name has to do. */
export function agentOfVolume(name: string): string | null {
  return /^mooring-(?!helper-)(.+)$/.exec(name)?.[1] ?? null;
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

export const bears = (found: Labels | null | undefined, wanted: Labels): boolean =>
  Object.entries(wanted).every(([name, value]) => found?.[name] === value);
