import { publicUrlOf, type Agent, type Release } from '../../agents/index.ts';
import type { RunningRelease } from '../../agents/services.ts';
import type { Config } from '../../../kernel/config/config.ts';
import type { ContainerSpec } from '../../../runtime/container.ts';

export const VOLUME_PATH = '/data';

export function containerSpec(
  agentId: string,
  agent: Agent,
  release: Release,
  { template, port, memoryMb, cpus, pids }: RunningRelease,
  variables: Record<string, string>,
  config: Config,
): ContainerSpec {
  return {
    agentId,
    generation: agent.generation,
    deploymentId: release.deploymentId,
    image: release.image,
    command: release.command,
    environment: {
      ...template?.env,
      ...variables,
      PORT: String(port),
      MOORING_AGENT_ID: agentId,
      MOORING_AGENT_NAME: agent.settings.name,
      MOORING_VOLUME: VOLUME_PATH,
      ...publicAddress(agentId, agent, config),
    },
    port,
    volumePath: VOLUME_PATH,
    user: template?.user ?? null,
    memoryBytes: memoryMb * 1024 * 1024,
    cpus,
    pids,
    openFiles: config.agentOpenFiles,
    readOnlyRoot: template?.readOnlyRoot ?? false,
    egress: agent.settings.egress ?? 'internet',
    tmpfs: (template?.tmpfs ?? []).map((path) => ({ path })),
    shmBytes: null,
    userNamespaces: false,
  };
}

/** Returns the variable with the address of a public agent. Without a base URL the service knows its own address from requests only. */
function publicAddress(agentId: string, { settings }: Agent, { baseUrl, agentDomain }: Config): Record<string, string> {
  return settings.public === true && baseUrl !== null ? { MOORING_PUBLIC_URL: publicUrlOf(agentId, baseUrl, agentDomain) } : {};
}
