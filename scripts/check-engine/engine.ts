import type Dockerode from 'dockerode';

import { pinApiVersion } from '../../src/runtime/docker/engine/engine.ts';
import { connectToEngine, type EngineConnection } from '../../src/runtime/docker/engine/engine-connection.ts';
import { tarOf, type TarEntry } from '../../src/runtime/docker/image-sources/build-context.ts';
import { pull } from '../../src/runtime/docker/image-sources/registry.ts';
import { removeInstance } from '../../test/support/images.ts';
import type { EngineInfoAnswer, EngineVersionAnswer } from './report.ts';

/** The label of the containers that the check itself creates. */
const LABEL = 'mooring-check';
const PULL_TIMEOUT_MS = 15_000;
const MEGABYTE = 1024 * 1024;

export interface Ran {
  code: number;
  output: string;
}

/** The checked engine, accessed directly rather than through the service. */
export class Engine {
  readonly docker: Dockerode;
  /** The prefixes of the names of images that belong to the check. */
  readonly own: string[];
  /** The ids of the images that the check has created: one whose tag has moved has no name. */
  readonly made: string[] = [];

  private constructor(
    /** A part of the names of everything that the check creates on the engine. */
    readonly suffix: string,
    private readonly connection: EngineConnection,
  ) {
    this.docker = pinApiVersion(connection.docker);
    this.own = [`mooring-check-${suffix}`];
  }

  /** Connects as the service does. Throws an error for the operator if the engine can't be reached safely. */
  static async open(suffix: string): Promise<Engine> {
    const silent = { log: () => undefined, warn: () => undefined };
    return new Engine(suffix, await connectToEngine(process.env, process.env.MOORING_SSH_CONFIG ?? null, silent));
  }

  close(): Promise<void> {
    return this.connection.close();
  }

  /** Returns the address under which the engine is reached. */
  async address(): Promise<string> {
    const modem = this.docker.modem as unknown as { getSocketPath(): Promise<string | undefined> | undefined };
    return process.env.DOCKER_HOST ?? `unix://${(await modem.getSocketPath()) ?? ''}`;
  }

  async describe(): Promise<{ version: EngineVersionAnswer; info: EngineInfoAnswer }> {
    const [version, info] = await Promise.all([this.docker.version(), this.docker.info()]);
    return { version, info: info as EngineInfoAnswer };
  }

  /** Returns the agent's only container. */
  async containerOf(agentId: string): Promise<Dockerode.ContainerInspectInfo> {
    const [found, ...others] = await this.docker.listContainers({ all: true, filters: { label: [`mooring.agent=${agentId}`] } });
    if (found === undefined || others.length > 0)
      throw new Error(`the engine has ${others.length + (found ? 1 : 0)} containers of the agent`);
    return this.docker.getContainer(found.Id).inspect();
  }

  /** Returns the agent's address on its network. */
  async addressOf(agentId: string): Promise<string> {
    const { NetworkSettings } = await this.containerOf(agentId);
    const address = Object.values(NetworkSettings.Networks)
      .map(({ IPAddress }) => IPAddress)
      .find(Boolean);
    if (address === undefined) throw new Error('the container of the agent has no address');
    return address;
  }

  /** Returns the names of the agents' containers and volumes that the engine has. */
  async agentParts(instance: string): Promise<string[]> {
    const filters = { label: [`mooring.instance=${instance}`, 'mooring.agent'] };
    const containers = await this.docker.listContainers({ all: true, filters });
    const { Volumes } = await this.docker.listVolumes({ filters });
    return [...containers.map(({ Names }) => Names[0] ?? '?'), ...(Volumes ?? []).map(({ Name }) => Name)];
  }

  /** Returns the gateway of the engine's default network, which is an address of the engine's host; null if there is no such network. */
  async hostAddress(): Promise<string | null> {
    const found = await this.docker
      .getNetwork('bridge')
      .inspect()
      .catch(() => null);
    const configs = (found?.IPAM?.Config ?? []) as { Gateway?: string; Subnet?: string }[];
    const { Gateway, Subnet } = configs[0] ?? {};
    if (Gateway !== undefined && Gateway !== '') return Gateway;
    // Engines omit the gateway if it is the first address of the range.
    return Subnet === undefined ? null : Subnet.replace(/\.\d+\/\d+$/, '.1');
  }

  async idOf(image: string): Promise<string> {
    return (await this.docker.getImage(image).inspect()).Id;
  }

  /** Returns whether the engine can pull the image. */
  async pulls(image: string): Promise<boolean> {
    return pull(this.docker, image, () => undefined, AbortSignal.timeout(PULL_TIMEOUT_MS)).then(
      () => true,
      () => false,
    );
  }

  /** Runs a command in a container of its own, and returns its exit code and output. */
  async run(image: string, command: string[], network = 'bridge'): Promise<Ran> {
    const container = await this.make(image, command, network);
    try {
      await container.start();
      const { StatusCode } = (await container.wait()) as { StatusCode: number };
      return { code: StatusCode, output: String(await container.logs({ stdout: true, stderr: true })) };
    } finally {
      await container.remove({ force: true, v: true });
    }
  }

  /**
   * Starts a long-running container in the network of the engine's host, with these files in addition to those of its image. It throws if
   * that container ends at once.
   */
  async keepOnHost(image: string, command: string[], files: TarEntry[] = []): Promise<Dockerode.Container> {
    const container = await this.make(image, command, 'host');
    if (files.length > 0) await container.putArchive(tarOf(files), { path: '/' });
    await container.start();
    const { State } = await container.inspect();
    if (!State.Running) throw new Error(`a container on the network of the engine's host ended at once, with ${State.ExitCode}`);
    return container;
  }

  private make(image: string, command: string[], network: string): Promise<Dockerode.Container> {
    return this.docker.createContainer({
      Image: image,
      Entrypoint: command,
      Cmd: [],
      Labels: { [LABEL]: this.suffix },
      // The output is then not framed.
      Tty: true,
      HostConfig: { NetworkMode: network, Memory: 64 * MEGABYTE },
    });
  }

  /** Removes everything that belongs to the installation and to the check from the engine. */
  async clean(instance: string | null): Promise<void> {
    const own = await this.docker.listContainers({ all: true, filters: { label: [`${LABEL}=${this.suffix}`] } });
    for (const { Id } of own) await this.docker.getContainer(Id).remove({ force: true, v: true });
    if (instance !== null) {
      await removeInstance(this.docker, instance);
      this.own.push(`mooring-${instance}:`);
    }
    await this.removeOwnImages();
  }

  /** Removes the images by their names: the parents of others stay until these are gone. The last tag takes an image's digests along. */
  private async removeOwnImages(): Promise<void> {
    const names = (await this.ownImages()).flatMap(namesOf).filter((name) => this.isOwn(name));
    for (const name of [...names, ...this.made.toReversed()]) {
      await this.docker
        .getImage(name)
        .remove({ force: true })
        .catch((error: { statusCode?: number }) => {
          if (error.statusCode !== 404) throw error;
        });
    }
  }

  private isOwn(name: string): boolean {
    return this.own.some((beginning) => name.startsWith(beginning));
  }

  /** Returns leftovers of the installation and of the check on the engine. */
  async leftOvers(instance: string | null): Promise<string[]> {
    const labels = [...(instance === null ? [] : [`mooring.instance=${instance}`]), `${LABEL}=${this.suffix}`];
    const found: string[] = [];
    for (const label of labels) {
      const filters = { label: [label] };
      const containers = await this.docker.listContainers({ all: true, filters });
      const { Volumes } = await this.docker.listVolumes({ filters });
      const networks = await this.docker.listNetworks({ filters });
      const images = await this.docker.listImages({ filters });
      found.push(
        ...containers.map(({ Names }) => `the container ${Names[0]}`),
        ...(Volumes ?? []).map(({ Name }) => `the volume ${Name}`),
        ...networks.map(({ Name }) => `the network ${Name}`),
        ...images.map(({ Id, RepoTags }) => `the image ${RepoTags?.[0] ?? Id}`),
      );
    }
    const own = await this.ownImages();
    return [...found, ...own.map(({ Id, RepoTags }) => `the image ${RepoTags?.[0] ?? Id}`)];
  }

  private async ownImages(): Promise<Dockerode.ImageInfo[]> {
    const images = await this.docker.listImages();
    return images.filter((image) => this.made.includes(image.Id) || namesOf(image).some((name) => this.isOwn(name)));
  }
}

const namesOf = ({ RepoTags, RepoDigests }: Dockerode.ImageInfo): string[] => [...(RepoTags ?? []), ...(RepoDigests ?? [])];
