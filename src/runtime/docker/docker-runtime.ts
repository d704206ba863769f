/**
 * Runs agents as containers of a Docker Engine: the port `ContainerRuntime`, put together from the parts in this folder.
 *
 * Owns: the connection to the engine, and the parts, which it closes. Does not own any state of agents: the engine's containers, volumes
 * and labels are the only record of what exists.
 *
 * D1  Names heal: a container's name is computed from its agent and generation, and name and labels together prove whose it is. A repeated
 *     call finds the container of an earlier attempt. Containers with our labels and another name belong to nobody (decisions/0049).
 * D2  Every call to the engine has a timeout, and an engine that is unavailable is told apart from one that refuses.
 * D3  When the connection to the engine's events is lost, everything that was remembered from them is in doubt and checked again.
 * D4  No agent starts on an engine that can't enforce what was promised (`EngineChecks`).
 */
import type { KeyObject } from 'node:crypto';
import type { Duplex } from 'node:stream';
import Dockerode from 'dockerode';
import type { OpenRange } from '../../kernel/network/open-ranges.ts';
import { ContainerRuntime } from '../runtime.ts';
import type { OutputBounds } from '../output-bounds.ts';
import { RuntimeRefused } from '../runtime.errors.ts';
import type { AgentAddress } from '../../kernel/network/agent-address.ts';
import type { AgentPorts } from '../agent-ports.ts';
import type { MeasureBounds, VolumeSize } from '../files.ts';
import type { DialTarget, ExecRequest, ExecResult, LogCursor, LogLine, RuntimeEvent, Terminal, TerminalRequest } from '../runtime.ts';
import type { ImageSource, ResolvedImage } from '../image-source.ts';
import type { ContainerHandle, ContainerName, ContainerSpec, ContainerView, RuntimeList, Transition } from '../container.ts';
import type { DockerfileBuilds, EgressStatus, EngineStatus } from '../engine-status.ts';
import type { RuntimeCapabilities } from '../runtime-capabilities.ts';
import type { AgentAddresses, EgressMode } from '../../kernel/config/config.ts';
import { AgentEgress, type EgressOptions } from './networks/agent-egress.ts';
import { eachVolume } from './engine/bulk-list.ts';
import { call, CALL_TIMEOUT_MS, pinApiVersion, pingEngine } from './engine/engine.ts';
import { filesInto, plainTar } from './engine/archive.ts';
import { ContainerIdentities, type KnownContainer } from './engine/container-identities.ts';
import { EngineChecks } from './engine/engine-checks.ts';
import { EngineHealth } from './engine/engine-health.ts';
import { nearEngine, type EngineConnection } from './engine/engine-connection.ts';
import { engineEvents } from './engine/events.ts';
import { watchOversized } from './engine/oversized.ts';
import { AgentCreation } from './containers/agent-creation.ts';
import { AgentStart } from './containers/agent-start.ts';
import { GuardedStart } from './containers/guarded-start.ts';
import { ChannelFiles } from '../channel/channel-files.ts';
import { AgentChannels } from '../channel/agent-channels.ts';
import { ChannelCommands } from '../channel/channel-commands.ts';
import { connectSupervisor } from './channels/connect-supervisor.ts';
import { ContainerLife } from './containers/container-life.ts';
import { transitionsOf } from './containers/container-transitions.ts';
import { ContainerLookup } from './containers/container-lookup.ts';
import { HelperVolume } from './volumes/helper-volume.ts';
import type { DockerfileBuilder } from './builder/dockerfile-builder.ts';
import { openBuilder, type BuilderSettings } from './builder/open-builder.ts';
import { Images } from './images/images.ts';
import { containerLog, lastLinesOf } from './containers/logs.ts';
import { helperProgram, labels } from './engine/names.ts';
import { AgentNetworks } from './networks/agent-networks.ts';
import { AgentReach } from './containers/agent-reach.ts';
import { BuildNetworks } from './networks/build-networks.ts';
import type { GuardedPorts } from './networks/port-rules.ts';
import { dockerVolumeSizes } from './volumes/volume-sizes.ts';
import { AgentVolumes } from './volumes/agent-volumes.ts';

export interface DockerRuntimeOptions extends Pick<EgressOptions, 'mirrors'> {
  /** The installation's id, short hex, which is part of labels and names. */
  instance: string;
  /** The key of the codes in the names and labels of agents' containers. With another key, containers would count as foreign. */
  containerKey: KeyObject;
  /** The client of an engine that is reached directly; by default it follows `DOCKER_HOST`. */
  docker?: Dockerode;
  /** The connection to the engine, used instead of `docker`. */
  connection?: EngineConnection;
  /** The image with a static busybox at /bin/busybox; null stands for the machine's own. */
  helperImage: string | null;
  /** The OCI runtime of agents' containers (`runsc` for gVisor); null stands for the engine's default. */
  ociRuntime: string | null;
  /** The addresses that agents may reach. */
  egress: EgressMode;
  /** The image of the programs that enforce this; null stands for the machine's own, or an image that the engine builds. */
  egressImage?: string | null;
  /** The private addresses that agents may reach in addition. */
  open?: readonly OpenRange[];
  /** The kind of address by which agents are reached; `auto` by default. */
  addresses?: AgentAddresses;
  /** The ports that are published for agents; by default those of the loopback address of the engine's machine. */
  ports?: GuardedPorts | null;
  /** The builder of accounts' Dockerfiles: the settings of BuildKit, or `engine`, the default, for the engine's own. */
  builder?: 'engine' | BuilderSettings;
  /** The size that an image may have as its registry sends it, in bytes; by default there is no bound. */
  imageMaxBytes?: number;
  /** The image of computers, or the path of a tar of it; by default it is built from our Dockerfile. */
  computerImage?: string | null;
  /** The quota of new volumes, on engines that enforce one; null stands for none. */
  volumeMaxBytes?: number | null;
  /** The value is true if no agent may start on an engine that does not enforce its limits. */
  requireLimits?: boolean;
  logger?: EgressOptions['logger'];
}

const PING_TIMEOUT_MS = 5_000;

/** The runtime on a Docker Engine that serves version 1.41 of the API. See D1 to D4. */
export class DockerRuntime extends ContainerRuntime {
  override readonly name = 'docker';
  override readonly files: ChannelFiles;
  override readonly commands: ChannelCommands;
  private readonly connection: EngineConnection;
  private readonly docker: Dockerode;
  private readonly instance: string;
  private readonly identities: ContainerIdentities;
  private readonly agentEgress: AgentEgress;
  private readonly networks: AgentNetworks;
  private readonly reach: AgentReach;
  private readonly helper: HelperVolume;
  override readonly images: Images['own'];
  private readonly sources: Images;
  private readonly builder: DockerfileBuilder | null;
  private readonly volumes: AgentVolumes;
  private readonly health = new EngineHealth((signal) => pingEngine(this.docker, signal));
  private readonly containers: ContainerLookup;
  private readonly life: ContainerLife;
  private readonly channels: AgentChannels;
  private readonly engine: EngineChecks;
  private readonly starts: GuardedStart;
  private readonly agentCreation: AgentCreation;
  private readonly agentStart: AgentStart;
  private readonly closing = new AbortController();

  constructor(options: DockerRuntimeOptions) {
    super();
    this.connection = options.connection ?? nearEngine(options.docker ?? new Dockerode());
    this.docker = pinApiVersion(this.connection.docker);
    this.channels = new AgentChannels((handle) => connectSupervisor(this.docker, handle), helperProgram);
    const channelOf = (handle: string, signal: AbortSignal) => this.channels.of(handle, signal);
    this.files = new ChannelFiles(channelOf);
    this.commands = new ChannelCommands(channelOf, helperProgram);
    this.engine = new EngineChecks(this.docker, this.health, {
      requireLimits: options.requireLimits ?? false,
      warn: (fields, message) => options.logger?.warn(fields, message),
    });
    this.instance = options.instance;
    this.identities = new ContainerIdentities(options.instance, options.containerKey);
    this.containers = new ContainerLookup(this.docker, this.identities, this.health);
    this.life = new ContainerLife(this.docker, this.containers, this.engine);
    this.agentEgress = new AgentEgress({
      ...options,
      docker: this.docker,
      identities: this.identities,
      mode: options.egress,
      open: options.open ?? [],
      ready: () => this.engine.assertSupported(),
      image: options.egressImage ?? null,
    });
    const { kind, relay } = this.connection;
    const situation = { mode: options.egress, addresses: options.addresses ?? 'auto', isFar: kind !== 'near' };
    this.networks = new AgentNetworks(this.docker, this.instance, this.agentEgress, situation);
    const { identities, containers, networks } = this;
    const { nft } = this.agentEgress;
    this.reach = new AgentReach({ identities, containers, networks, relay, nft, ports: options.ports ?? null, logger: options.logger });
    this.builder =
      options.builder === undefined || options.builder === 'engine'
        ? null
        : openBuilder(this.docker, this.identities, this.networks, options.builder);
    this.sources = new Images({
      ...options,
      docker: this.docker,
      networks: this.networks,
      buildNetworks: new BuildNetworks(this.docker, this.instance, this.agentEgress),
      builder: this.builder,
      helperImage: () => this.helper.ensureProgramImage(),
    });
    this.images = this.sources.own;
    watchOversized(this.docker, (what) =>
      options.logger?.warn({ what }, 'THE ENGINE’S RESPONSE HAD PARTS OF MORE THAN 4 MiB, WHICH WERE SKIPPED: check for very large labels'),
    );
    this.starts = new GuardedStart(this.docker, this.identities, this.containers, this.health, this.sources);
    const { instance, life, starts, agentEgress, reach } = this;
    this.agentStart = new AgentStart({ instance, containers, life, starts, agentEgress, networks, reach });
    this.volumes = new AgentVolumes(this.docker, this.identities, options.volumeMaxBytes ?? null);
    this.helper = new HelperVolume(this.docker, this.instance, options.helperImage, (reason) =>
      options.logger?.warn({ reason }, 'no helper program: agents are created without exec'),
    );
    const { docker, sources, volumes, helper } = this;
    const means = { docker, engine: this.engine, identities, sources, volumes, helper, ociRuntime: options.ociRuntime };
    this.agentCreation = new AgentCreation({ ...means, containers, life, starts, agentEgress, networks, reach });
  }

  override async capabilities(): Promise<RuntimeCapabilities> {
    return { freeze: this.engine.canFreeze, isolation: true, images: true };
  }

  override async ping(): Promise<void> {
    await this.engine.assertSupported();
    await this.health.observe(() => call(null, (signal) => pingEngine(this.docker, signal), PING_TIMEOUT_MS));
  }

  override async engineStatus(): Promise<EngineStatus> {
    const { lack, warnings } = await this.engine.status();
    const { hostWarning } = this.agentEgress;
    return { lack, warnings: hostWarning === null ? warnings : [...warnings, hostWarning] };
  }

  override async available(): Promise<boolean> {
    return (await this.health.available()) && this.engine.isSupported;
  }

  override async ensureImage(source: ImageSource, log: (line: string) => void, signal: AbortSignal): Promise<ResolvedImage> {
    await this.engine.assertStartable();
    return this.sources.ensure(source, log, AbortSignal.any([signal, this.closing.signal]));
  }

  override async ensureVolume(agentId: string): Promise<void> {
    await this.engine.assertSupported();
    await this.volumes.ensure(agentId);
  }

  override async removeVolume(agentId: string): Promise<void> {
    await this.engine.assertSupported();
    try {
      await this.volumes.remove(agentId);
    } catch (error) {
      // An unknown container may keep the volume, so the next lookup is by label.
      this.containers.expectAny(agentId);
      throw error;
    }
  }

  override async volumeSizes(agentIds: readonly string[], bounds: MeasureBounds): Promise<ReadonlyMap<string, VolumeSize>> {
    await this.engine.assertSupported();
    const image = await this.helper.ensureProgramImage();
    if (image === null) throw new RuntimeRefused('there is no helper program');
    return dockerVolumeSizes({ docker: this.docker, identities: this.identities, image }, agentIds, bounds);
  }

  override async create(spec: ContainerSpec): Promise<ContainerView> {
    await this.engine.assertStartable();
    return this.agentCreation.create(spec);
  }

  override async start(handle: ContainerHandle, environment: Readonly<Record<string, string>>): Promise<boolean> {
    await this.engine.assertStartable();
    return this.agentStart.start(handle, environment);
  }

  override stop(handle: ContainerHandle, graceSeconds: number): Promise<void> {
    return this.life.stop(handle, graceSeconds);
  }

  override async freeze(handle: ContainerHandle): Promise<void> {
    await this.life.freeze(handle);
    this.channels.setFrozen(handle, true);
  }

  override async thaw(handle: ContainerHandle): Promise<void> {
    await this.life.thaw(handle);
    this.channels.setFrozen(handle, false);
  }

  override transitions(handle: ContainerHandle, since: string): Promise<Transition[]> {
    return transitionsOf(this.docker, handle, since);
  }

  override remove(handle: ContainerHandle): Promise<void> {
    return this.life.remove(handle);
  }

  override async inspect(agentId: string, generation?: number): Promise<{ containers: ContainerView[]; volume: boolean }> {
    await this.engine.assertSupported();
    const [containers, volume] = await Promise.all([
      this.containers.of(agentId, generation),
      this.health.observe(() => this.volumes.exists(agentId)),
    ]);
    return { containers, volume };
  }

  override async list(): Promise<RuntimeList> {
    await this.engine.assertSupported();
    const label = [`${labels.instance}=${this.instance}`, labels.agent];
    const [containers, volumes] = await Promise.all([
      this.containers.all(),
      eachVolume(this.docker, label, (volume) => volume.Labels[labels.agent]),
    ]);
    return { containers, volumes: volumes.filter((agentId) => agentId !== undefined) };
  }

  override async running(container: ContainerName): Promise<ContainerHandle | null> {
    const known = this.channels.runningOf(container);
    if (known !== null) return known;
    const handle = await super.running(container);
    if (handle !== null) this.channels.setRunning(container, handle);
    return handle;
  }

  override exec(handle: ContainerHandle, request: ExecRequest): Promise<ExecResult> {
    return this.channels.exec(handle, request);
  }

  override terminal(handle: ContainerHandle, request: TerminalRequest): Promise<Terminal> {
    return this.channels.terminal(handle, request);
  }

  override dial(handle: ContainerHandle, to: DialTarget, signal: AbortSignal): Promise<Duplex> {
    return this.channels.dial(handle, to, signal);
  }

  override async copyIn(handle: ContainerHandle, path: string, tar: NodeJS.ReadableStream): Promise<void> {
    await filesInto(this.docker.getContainer(handle), path, await plainTar(tar), 4 * CALL_TIMEOUT_MS);
  }

  override logs(handle: ContainerHandle, after: LogCursor | null, signal: AbortSignal, bounds?: OutputBounds): AsyncIterable<LogLine> {
    return containerLog(this.docker.getContainer(handle), after, AbortSignal.any([signal, this.closing.signal]), bounds);
  }

  override lastLines(handle: ContainerHandle, count: number): Promise<string[]> {
    return lastLinesOf(this.docker.getContainer(handle), count);
  }

  override async *events(signal: AbortSignal): AsyncIterable<RuntimeEvent> {
    const either = AbortSignal.any([signal, this.closing.signal]);
    const notes = {
      created: (container: KnownContainer) => this.containers.expect(container),
      frozen: (handle: string, isFrozen: boolean) => this.channels.setFrozen(handle, isFrozen),
      proxyEnded: () => this.agentEgress.invalidate(),
      buildEnded: () => void this.sources.engineBuilds.removeLeftOvers(),
    };
    for await (const event of engineEvents(this.docker, this.identities, this.health, either, notes)) {
      if (event.kind === 'lost') {
        this.agentEgress.invalidate();
        this.engine.check();
        this.reach.invalidate();
        this.channels.invalidate();
        void this.sources.engineBuilds.removeLeftOvers();
      }
      yield event;
    }
  }

  override async address(container: ContainerName, port: number): Promise<AgentAddress> {
    await this.engine.assertSupported();
    return this.reach.address(container, port);
  }

  override async egress(): Promise<EgressStatus> {
    await this.engine.assertSupported();
    return this.agentEgress.read();
  }

  override agentPorts(): Promise<AgentPorts | null> {
    return this.reach.state();
  }

  override dockerfileBuilds(): Promise<DockerfileBuilds | null> {
    return this.sources.dockerfileBuilds();
  }

  override async close(): Promise<void> {
    this.agentEgress.close();
    this.reach.close();
    this.channels.close();
    this.closing.abort();
    await this.builder?.close();
    await this.connection.close();
  }
}
