import type { KeyObject } from 'node:crypto';

import { Global, Inject, Logger, Module, type OnApplicationShutdown } from '@nestjs/common';
import { Config } from '../kernel/config/config.ts';
import { isLoopbackAddress } from '../kernel/config/published-ports.ts';
import { containerKey } from '../crypto/container-key.ts';
import { Keyring } from '../crypto/keyring.ts';
import { isDatabaseUnavailable } from '../postgres/database/database-unavailable.ts';
import { Database } from '../postgres/database/database.ts';
import { Installation } from '../postgres/database/installation.ts';
import { Startup } from '../kernel/startup.ts';
import { EgressMetrics } from './egress-metrics.ts';
import { DockerRuntime, type DockerRuntimeOptions } from './docker/docker-runtime.ts';
import { connectToEngine, type EngineConnection } from './docker/engine/engine-connection.ts';
import type { GuardedPorts } from './docker/networks/port-rules.ts';
import { mirrorsOf } from './docker/networks/mirrors.ts';
import { sharedInstance, type Instance } from './instance-id.ts';
import { LocalRuntime } from './local/local-runtime.ts';
import { ContainerRuntime } from './runtime.ts';
import { EngineUnsupported } from './runtime.errors.ts';

/** The time for which `auto` waits for an engine, in ms. */
const ENGINE_ANSWERS_MS = 2_000;
const NO_ENGINE = 'No container engine answers.';

type RuntimeConfig = Pick<
  Config,
  | 'runtime'
  | 'dataDir'
  | 'helperImage'
  | 'egressImage'
  | 'containerRuntime'
  | 'agentEgress'
  | 'agentEgressPrivate'
  | 'agentAddresses'
  | 'agentBindAddress'
  | 'agentPorts'
  | 'agentClients'
  | 'sshConfig'
  | 'buildVariables'
  | 'builder'
  | 'builderImage'
  | 'builderAppArmor'
  | 'builderCacheMb'
  | 'builderCachesMax'
  | 'imageBuilds'
  | 'volumeMaxMb'
  | 'imageMaxMb'
  | 'computerImage'
  | 'requireLimits'
  | 'production'
>;
type Log = Pick<Logger, 'log' | 'warn'>;
type DockerLogger = NonNullable<DockerRuntimeOptions['logger']>;

/**
 * Opens the configured runtime. Throws if `auto` finds no supported engine in production, since agents would not be isolated, and if agents
 * would run as processes in a data folder that does not belong to the installation.
 */
export async function openRuntime(
  config: RuntimeConfig,
  instance: Instance,
  logger: Log,
  keyOfContainers: () => Promise<KeyObject>,
): Promise<ContainerRuntime> {
  let lack: string | null = NO_ENGINE;
  if (config.runtime !== 'local') {
    const told: DockerLogger = {
      log: (fields, message) => logger.log({ msg: message, ...fields }),
      warn: (fields, message) => logger.warn({ msg: message, ...fields }),
    };
    const connection = await connectToEngine(process.env, config.sshConfig, told);
    const docker = new DockerRuntime({
      connection,
      instance: instance.id,
      containerKey: await keyOfContainers(),
      helperImage: config.helperImage,
      ociRuntime: config.containerRuntime,
      egress: config.agentEgress,
      egressImage: config.egressImage,
      open: config.agentEgressPrivate,
      addresses: config.agentAddresses,
      ports: portsOf(config, connection),
      mirrors: mirrorsOf(config.buildVariables),
      builder:
        config.builder === 'engine'
          ? 'engine'
          : {
              image: config.builderImage,
              appArmor: config.builderAppArmor,
              cacheMb: config.builderCacheMb,
              caches: config.builderCachesMax,
              builders: config.imageBuilds,
            },
      imageMaxBytes: config.imageMaxMb * 1024 * 1024,
      computerImage: config.computerImage,
      volumeMaxBytes: config.volumeMaxMb === 0 ? null : config.volumeMaxMb * 1024 * 1024,
      requireLimits: config.requireLimits,
      logger: told,
    });
    lack = config.runtime === 'docker' ? null : await lackSoon(docker);
    if (lack === null) {
      void warnOfBuilds(docker, logger);
      return docker;
    }
    await docker.close();
    logger.log(lack);
  }
  if (config.production)
    throw new Error(
      `${lack} Without a Docker Engine agents are not isolated, which is refused with NODE_ENV=production: ` +
        'start one, or say where it is with DOCKER_HOST.',
    );
  if (!instance.hasFolder)
    throw new Error(
      `Without a container engine agents are processes of the data folder, and ${config.dataDir} is not the folder of this database's ` +
        'installation: start Docker, or give all services the same MOORING_DATA_DIR.',
    );
  logger.warn(
    'AGENTS ARE NOT ISOLATED: they run as child processes of this machine and can read and change what its user can. ' +
      'Run only agents that you trust, or install Docker and start with MOORING_RUNTIME=docker.',
  );
  return LocalRuntime.open({ instance: instance.id, dataDir: config.dataDir });
}

/** Returns where ports are published for agents; null stands for the loopback address of the engine's machine. */
function portsOf(
  { agentAddresses, agentBindAddress, agentPorts, agentClients }: RuntimeConfig,
  { kind }: EngineConnection,
): GuardedPorts | null {
  if (agentBindAddress !== null && !isLoopbackAddress(agentBindAddress))
    return { address: agentBindAddress, ports: agentPorts, clients: agentClients };
  if (kind === 'tls' && agentAddresses !== 'container')
    throw new Error(
      'The engine is on another machine, whose loopback address can’t be reached: name the address at which it is to publish the ports of ' +
        'agents in MOORING_AGENT_BIND_ADDRESS, and the service’s own as it sees it in MOORING_AGENT_CLIENTS, or reach the engine by ssh://.',
    );
  return null;
}

async function warnOfBuilds(runtime: ContainerRuntime, logger: Log): Promise<void> {
  const builds = await runtime.dockerfileBuilds();
  if (builds?.weakness != null) logger.warn({ msg: 'BUILDS OF DOCKERFILES ARE NOT ISOLATED (MOORING_BUILDER)', reason: builds.weakness });
}

/** Returns why the engine can't be used, in a sentence; null if it can. */
async function lackSoon(runtime: ContainerRuntime): Promise<string | null> {
  let timer: NodeJS.Timeout | undefined;
  const tooLate = new Promise<string>((resolve) => {
    timer = setTimeout(() => resolve(NO_ENGINE), ENGINE_ANSWERS_MS);
  });
  const answers = runtime.ping().then(
    () => null,
    (error: unknown) => (error instanceof EngineUnsupported ? error.message : NO_ENGINE),
  );
  try {
    return await Promise.race([answers, tooLate]);
  } finally {
    clearTimeout(timer);
  }
}

@Global()
@Module({
  providers: [
    EgressMetrics,
    {
      provide: ContainerRuntime,
      inject: [Config, Database, Keyring, Startup],
      useFactory: async (config: Config, database: Database, keyring: Keyring, startup: Startup) => {
        const awaited = <T>(attempt: () => Promise<T>) => startup.until('database', isDatabaseUnavailable, attempt);
        const instance = await awaited(() => sharedInstance(config, new Installation(database)));
        return openRuntime(config, instance, new Logger('ContainerRuntime'), () => awaited(() => containerKey(keyring)));
      },
    },
  ],
  exports: [ContainerRuntime],
})
export class RuntimeModule implements OnApplicationShutdown {
  constructor(@Inject(ContainerRuntime) private readonly runtime: ContainerRuntime) {}

  /** Closes the runtime; agents go on running. */
  onApplicationShutdown(): Promise<void> {
    return this.runtime.close();
  }
}
