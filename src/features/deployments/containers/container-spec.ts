import type { Agent, Release } from '../../agents/index.ts';
import type { Config } from '../../../kernel/config/config.ts';
import type { ContainerSpec } from '../../../runtime/container.ts';
import { DEFAULT_PORT, type Template } from '../../templates/index.ts';

export const VOLUME_PATH = '/data';
const DEFAULT_STOP_GRACE_SECONDS = 10;

/** Returns how an agent is run and reached: the settings of its template, or the defaults for an image without one. */
export function runningAs(template: Template | undefined) {
  return {
    port: template?.port ?? DEFAULT_PORT,
    health: template?.health ?? { path: '/healthz' },
    stopGraceSeconds: template?.stopGraceSeconds ?? DEFAULT_STOP_GRACE_SECONDS,
  };
}

/** Returns what a container of the agent's generation runs: the release command as long as it is due, or else the release. */
export function containerSpec(
  agentId: string,
  agent: Agent,
  release: Release,
  template: Template | undefined,
  variables: Record<string, string>,
  config: Config,
): ContainerSpec {
  const { port } = runningAs(template);
  return {
    agentId,
    generation: agent.generation,
    deploymentId: release.deploymentId,
    image: release.image,
    command: commandFor(agent) ?? release.command,
    environment: {
      ...template?.env,
      ...variables,
      PORT: String(port),
      MOORING_AGENT_ID: agentId,
      MOORING_AGENT_NAME: agent.settings.name,
      MOORING_VOLUME: VOLUME_PATH,
    },
    port,
    volumePath: VOLUME_PATH,
    user: template?.user ?? null,
    memoryBytes: (template?.resources.memoryMb ?? config.agentMemoryMb) * 1024 * 1024,
    cpus: config.agentCpus,
    pids: template?.resources.pids ?? config.agentPids,
    openFiles: config.agentOpenFiles,
    readOnlyRoot: template?.readOnlyRoot ?? false,
    egress: agent.settings.egress ?? 'internet',
    tmpfs: (template?.tmpfs ?? []).map((path) => ({ path })),
    shmBytes: null,
    userNamespaces: false,
  };
}

function commandFor({ status, deployment }: Agent): string[] | null {
  return status === 'deploying' ? (deployment?.releaseCommand?.command ?? null) : null;
}
