import type Dockerode from 'dockerode';

import { raceAbort } from '../../../kernel/async/race-abort.ts';
import type { ContainerIdentities } from '../engine/container-identities.ts';
import { call } from '../engine/engine.ts';
import type { AgentNetworks } from '../networks/agent-networks.ts';
import { filesMaxOf } from './build-guard.ts';
import { builderImage, readSeccomp } from './builder-image.ts';
import type { BuilderConfig } from './builder-options.ts';
import type { PoolLimits } from './builder-pool.ts';
import { DockerfileBuilder } from './dockerfile-builder.ts';

export interface BuilderSettings extends PoolLimits {
  /** The name of the builders' image, or the path of a tar of it; null stands for our Dockerfile. */
  image: string | null;
  /** The name of the AppArmor profile of builders, on engines with AppArmor. */
  appArmor: string;
}

const MEMORY_BYTES = 4 * 1024 ** 3;
/** The fraction of the engine's processors that one builder may use, at least one and at most four. */
const CPU_PART = 0.75;
const CPUS_MAX = 4;
/** The fraction of a cache that BuildKit keeps after a build. */
const KEPT_PART = 0.4;
/** A quota is somewhat larger than the bound, so that a build that exceeds the bound is ended with our message first. */
const QUOTA_PART = 1.1;

/** Returns the builder of Dockerfiles on this engine. It creates nothing before the first build. */
export function openBuilder(
  docker: Dockerode,
  identities: ContainerIdentities,
  networks: AgentNetworks,
  settings: BuilderSettings,
): DockerfileBuilder {
  const image = builderImage(docker, settings.image);
  let fixed: Promise<Pick<BuilderConfig, 'seccomp' | 'cpus' | 'appArmor'>> | null = null;
  const means = async (log: (line: string) => void, signal: AbortSignal): Promise<BuilderConfig> => {
    fixed ??= fixedMeans(docker, settings.appArmor);
    fixed.catch(() => (fixed = null));
    const [ofHost, id] = await Promise.all([fixed, image.ensure(log, signal), raceAbort(networks.ensure(networks.kindForBuilds), signal)]);
    const { cacheMb } = settings;
    const cache = {
      keepMb: Math.ceil(cacheMb * KEPT_PART),
      cacheBytes: Math.ceil(cacheMb * QUOTA_PART) * 1024 * 1024,
      filesMax: filesMaxOf(cacheMb),
    };
    return { ...ofHost, ...cache, image: id, memoryBytes: MEMORY_BYTES };
  };
  return new DockerfileBuilder({ docker, identities, limits: settings, means });
}

/** Returns the settings that do not change while the engine runs. */
async function fixedMeans(docker: Dockerode, profile: string): Promise<Pick<BuilderConfig, 'seccomp' | 'cpus' | 'appArmor'>> {
  const { NCPU, SecurityOptions } = (await call(null, () => docker.info())) as { NCPU: number; SecurityOptions?: string[] | null };
  const hasAppArmor = (SecurityOptions ?? []).some((option) => option.startsWith('name=apparmor'));
  const cpus = Math.max(1, Math.min(CPUS_MAX, NCPU * CPU_PART));
  return { seccomp: await readSeccomp(), cpus, appArmor: hasAppArmor ? profile : null };
}
