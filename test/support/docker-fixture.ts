import { randomBytes } from 'node:crypto';
import Dockerode from 'dockerode';
import { DockerRuntime } from '../../src/runtime/docker/docker-runtime.ts';
import { ContainerIdentities } from '../../src/runtime/docker/engine/container-identities.ts';
import type { OpenRange } from '../../src/kernel/network/open-ranges.ts';
import type { ExecResult } from '../../src/runtime/runtime.ts';
import type { ContainerSpec, ContainerView } from '../../src/runtime/container.ts';
import type { AgentAddresses, EgressMode } from '../../src/kernel/config/config.ts';
import { addWitness } from '../runner/evidence.ts';
import { testContainerKey } from './container-key.ts';
import { containerSpec } from './container-spec.ts';
import { importBusyboxImage, removeInstance } from './images.ts';
import { containersOn } from './witnesses.ts';

/** A Docker runtime with its own instance, and an image that contains only a busybox. */
export class DockerFixture {
  readonly docker: Dockerode;
  readonly instance = randomBytes(6).toString('hex');
  readonly containerKey = testContainerKey(this.instance);
  readonly identities = new ContainerIdentities(this.instance, this.containerKey);
  readonly runtime: DockerRuntime;
  image: string;
  private readonly images: string[] = [];
  private readonly forget: () => void;

  private constructor(
    docker: Dockerode,
    private readonly egress: EgressMode,
    private readonly addresses: AgentAddresses,
  ) {
    this.docker = docker;
    this.runtime = this.another();
    this.forget = addWitness('Docker runtime', () => containersOn(docker, `mooring.instance=${this.instance}`));
  }

  /** Opens one on the machine's engine, or on another one, whose network tests enter to reach its containers. */
  static async open(
    docker?: Dockerode,
    egress: EgressMode = 'all',
    addresses: AgentAddresses = docker === undefined ? 'auto' : 'container',
  ): Promise<DockerFixture> {
    const bed = new DockerFixture(docker ?? new Dockerode(), egress, addresses);
    bed.image = await bed.imageWith(['CMD ["sleep", "300"]']);
    return bed;
  }

  another(ociRuntime: string | null = null, egress = this.egress, open: OpenRange[] = []): DockerRuntime {
    const { instance, containerKey, docker, addresses } = this;
    return new DockerRuntime({ instance, containerKey, docker, helperImage: null, ociRuntime, egress, open, addresses });
  }

  /** Returns a runtime whose new volumes have a quota, if the engine can enforce one. */
  limited(volumeMaxBytes: number): DockerRuntime {
    const { instance, containerKey, docker, egress, addresses } = this;
    const more = { ociRuntime: null, egress, addresses, volumeMaxBytes };
    return new DockerRuntime({ instance, containerKey, docker, helperImage: null, ...more });
  }

  /** Makes a busybox image with these Dockerfile lines. */
  async imageWith(changes: string[]): Promise<string> {
    const name = await importBusyboxImage(this.docker, `mooring-test-${this.instance}:${this.images.length}`, changes);
    this.images.push(name);
    return name;
  }

  /** Registers an image that a test created otherwise, so that it is removed at the end. */
  remember(image: string): void {
    this.images.push(image);
  }

  spec(other: Partial<ContainerSpec> = {}): ContainerSpec {
    return containerSpec(this.image, other);
  }

  async running(other: Partial<ContainerSpec> = {}): Promise<ContainerView> {
    const spec = this.spec(other);
    const view = await this.runtime.create(spec);
    await this.runtime.start(view.handle, spec.environment);
    return view;
  }

  async state(view: ContainerView): Promise<ContainerView | undefined> {
    return (await this.runtime.inspect(view.agentId)).containers.find(({ handle }) => handle === view.handle);
  }

  /** Runs a shell line in the agent's container. */
  run(view: ContainerView, line: string, timeoutMs = 20_000): Promise<ExecResult> {
    return this.runtime.exec(view.handle, { argv: ['/bin/sh', '-c', line], timeoutMs, outputLimitBytes: 65_536 });
  }

  async output(view: ContainerView, line: string): Promise<string> {
    const { stdout, stderr } = await this.run(view, line);
    return stdout.toString() + stderr.toString();
  }

  async close(): Promise<void> {
    await this.runtime.close();
    await removeInstance(this.docker, this.instance, this.images);
    this.forget();
  }
}
