import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';

import Dockerode from 'dockerode';

import { builderImage } from './builder-image.ts';
import { GitServer, type GitEntry } from './git-server.ts';
import { busyboxEntries, importBusyboxImage } from './images.ts';
import { StartedService, type AnyBody, type ServiceOptions } from './started-service.ts';
import { TestRegistry } from './test-registry.ts';
import { until } from './until.ts';

/** The command of an agent that responds to `/healthz` with the content of a file. */
const command = ['/bin/busybox', 'httpd', '-f', '-p', '8080', '-h', '/www'];
const healthz = { name: 'www/healthz', type: 'file', mode: 0o644, content: 'well' } as const;

/**
 * A started service on Docker whose agents come from a Git server and a registry on this machine, and checks of what deployments leave
 * behind.
 */
export class DeploymentFixture {
  private constructor(
    readonly docker: Dockerode,
    readonly service: StartedService,
    readonly git: GitServer,
    readonly registry: TestRegistry,
    /** The name of the base image in the repositories' Dockerfiles. */
    readonly base: string,
  ) {}

  static async open({ environment, ...others }: Partial<ServiceOptions> = {}): Promise<DeploymentFixture> {
    const docker = new Dockerode();
    const base = await importBusyboxImage(docker, `mooring-test-deploy-${randomBytes(6).toString('hex')}:1`);
    const git = await GitServer.start();
    const registry = await TestRegistry.start({ credential: null });
    // No other bed's image has the same content, and therefore its id.
    const mark = { name: 'www/bed', type: 'file', mode: 0o644, content: base } as const;
    await registry.publish('1', [...(await busyboxEntries()), healthz, mark], command);
    const options: ServiceOptions = {
      ...others,
      runtime: 'docker',
      environment: {
        MOORING_ALLOW_PRIVATE_SOURCES: `${git.host},${registry.host}`,
        MOORING_SHARED_IMAGES: base,
        MOORING_BUILDER_IMAGE: await builderImage(),
        ...environment,
      },
    };
    return new DeploymentFixture(docker, await StartedService.start(options), git, registry, base);
  }

  /** Deploys an agent once, so that the installation's networks and helpers exist before times are measured. */
  async warmUp(): Promise<void> {
    this.commit();
    const agentId = await this.agent('repository');
    const { body } = await this.service.call('POST', `/api/v1/agents/${agentId}/deploy`, undefined, { prefer: 'wait=120' });
    expect(body).toMatchObject({ status: 'active' });
    await this.clear();
  }

  /** Commits a Dockerfile with these instructions before its start command, and other files, and returns the commit's hash. */
  commit(instructions: string[] = [], files: Record<string, GitEntry> = {}): string {
    const lines = [`FROM ${this.base}`, ...instructions, 'COPY www /www', `CMD ${JSON.stringify(command)}`, ''];
    return this.git.commit('project', { Dockerfile: lines.join('\n'), 'www/healthz': 'well', ...files });
  }

  /** Creates an agent without a deployment from the repository or from the registry's image, and returns its id. */
  async agent(from: 'repository' | 'image'): Promise<string> {
    const source = from === 'repository' ? { repo_url: this.git.url('project') } : { image: 'docker', image_name: this.registry.image };
    const { status, body } = await this.service.call('POST', '/api/v1/provision', { name: from, auto_deploy: false, ...source });
    expect([status, body]).toEqual([201, expect.anything()]);
    return body.agent_id;
  }

  /** Requests a deployment, and returns its id as soon as the request is acknowledged. */
  async deploy(agentId: string): Promise<string> {
    const { status, body } = await this.service.call('POST', `/api/v1/agents/${agentId}/deploy`);
    expect([status, body]).toEqual([202, expect.anything()]);
    return body.deployment_id;
  }

  async record(agentId: string, deploymentId: string): Promise<AnyBody> {
    const { body } = await this.service.call<AnyBody[]>('GET', `/api/v1/agents/${agentId}/deployments`);
    return body.find(({ id }) => id === deploymentId);
  }

  /** Waits until the deployment and its agent have settled, within the time (ms) if one is given, and returns the deployment's record. */
  async settled(agentId: string, deploymentId: string, withinMs?: number): Promise<AnyBody> {
    const settled = async () => {
      const record = await this.record(agentId, deploymentId);
      const agent = (await this.service.call('GET', `/api/v1/agents/${agentId}`)).body;
      const isOver = ['active', 'stopped', 'error'].includes(agent.status) && record?.completed_at !== null;
      return isOver ? { ...record, agent: agent.status } : undefined;
    };
    return until('the deployment settles', settled, { timeoutMs: withinMs });
  }

  /** Waits until a container that a build or an agent made runs this command line, and returns its id. */
  async running(line: string): Promise<string> {
    return until(`a container runs ${line}`, async () => {
      const instance = await this.service.instance();
      for (const { Id, ImageID, Labels } of await this.docker.listContainers()) {
        const isBuilder = 'mooring.builder' in Labels && Labels['mooring.instance'] === instance;
        if (!isBuilder && !(await this.isOurs(ImageID))) continue;
        // For a container that ends meanwhile, the call fails or returns null instead of the processes.
        const answer = await this.docker
          .getContainer(Id)
          .top({ ps_args: '-eo pid,args' })
          .catch(() => undefined);
        const processes: string[][] = answer?.Processes ?? [];
        if (processes.some((words) => words.slice(1).join(' ').includes(line))) return Id;
      }
      return undefined;
    });
  }

  /** Waits until only what these agents' containers need is left: no other process, folder, container or image. */
  async onlyNeeded(containers: number): Promise<void> {
    let left: string[] = [];
    await until('nothing is left over', async () => ((left = await this.leftOver(containers)).length === 0 ? true : undefined)).catch(
      () => undefined,
    );
    expect(left).toEqual([]);
  }

  /** Removes all agents with their containers, and the image that was pulled. */
  async clear(): Promise<void> {
    const { body } = await this.service.call<{ agent_id: string }[]>('GET', '/api/v1/agents?limit=200');
    await Promise.all(
      body.map(({ agent_id }) => this.service.call('DELETE', `/api/v1/agents/${agent_id}`, undefined, { prefer: 'wait=30' })),
    );
    for (const { Id } of (await this.docker.listImages()).filter((image) => this.isPulled(image)))
      await this.docker.getImage(Id).remove({ force: true });
  }

  async close(): Promise<void> {
    const made = await this.lineage();
    await this.service.dispose();
    for (const id of [...made].toReversed())
      await this.docker
        .getImage(id)
        .remove({ force: true })
        .catch(() => undefined);
    this.registry.close();
    await this.git.close();
  }

  private async leftOver(wanted: number): Promise<string[]> {
    const folders = await readdir(join(this.service.dataDir, 'repositories')).catch(() => []);
    const lineage = await this.lineage();
    const containers = (await this.docker.listContainers({ all: true })).filter(({ ImageID }) => lineage.has(ImageID));
    return [
      ...this.gitProcesses().map((pid) => `the process ${pid} of Git`),
      ...folders.map((folder) => `the folder ${folder}`),
      ...(containers.length === wanted ? [] : [`${containers.length} containers: ${containers.map(({ Command }) => Command).join(', ')}`]),
      ...(await this.needlessImages()).map((id) => `the image ${id}`),
    ];
  }

  private gitProcesses(): string[] {
    return readdirSync('/proc').filter((pid) => {
      try {
        return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/environ`, 'latin1').includes(`GIT_DIR=${this.service.dataDir}`);
      } catch {
        return false;
      }
    });
  }

  private isPulled({ RepoTags, RepoDigests }: Dockerode.ImageInfo): boolean {
    return [...(RepoTags ?? []), ...(RepoDigests ?? [])].some((name) => name.startsWith(`${this.registry.host}/`));
  }

  private async isOurs(imageId: string): Promise<boolean> {
    return (await this.lineage()).has(imageId);
  }

  /** Returns the ids of the base, of all that were built on it or for a project, and of the pulled one, parents before children. */
  private async lineage(): Promise<Set<string>> {
    const images = await this.docker.listImages({ all: true });
    const instance = await this.service.instance();
    const isBase = ({ RepoTags }: Dockerode.ImageInfo) => RepoTags?.includes(this.base) === true;
    // Projects have bases that other installations share, so images built on them are found by this installation's label.
    const isOfProject = ({ Labels }: Dockerode.ImageInfo) => Labels?.['mooring.instance'] === instance;
    const first = images.filter((image) => isBase(image) || this.isPulled(image) || isOfProject(image));
    const found = new Set(first.map(({ Id }) => Id));
    // A set that grows during its iteration is walked to its end.
    for (const id of found) for (const { Id, ParentId } of images) if (ParentId === id) found.add(Id);
    return found;
  }

  /** Returns the ids of the images that have no name and are below none that has one. */
  private async needlessImages(): Promise<string[]> {
    const lineage = await this.lineage();
    const images = (await this.docker.listImages({ all: true })).filter(({ Id }) => lineage.has(Id));
    const parents = new Map(images.map(({ Id, ParentId }) => [Id, ParentId]));
    const needed = new Set<string>();
    for (const { Id, RepoTags } of images) {
      if ((RepoTags ?? []).every((name) => name === '<none>:<none>')) continue;
      for (let id: string | undefined = Id; id; id = parents.get(id)) needed.add(id);
    }
    return images.filter((image) => !needed.has(image.Id) && !this.isPulled(image)).map(({ Id }) => Id);
  }
}
