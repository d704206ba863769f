import type Dockerode from 'dockerode';
import { LRUCache } from 'lru-cache';
import type { ContainerHandle, ContainerName, ContainerView, ListedContainer } from '../../container.ts';
import { ContainerGone, RuntimeRefused, RuntimeUnavailable } from '../../runtime.errors.ts';
import { containerIdsOf, eachContainer } from '../engine/bulk-list.ts';
import { outdatedName, type ContainerIdentities, type KnownContainer } from '../engine/container-identities.ts';
import type { EngineHealth } from '../engine/engine-health.ts';
import { call, mapBounded } from '../engine/engine.ts';
import { labels } from '../engine/names.ts';
import { listedView, view } from './container-view.ts';
import { Generations } from './generations.ts';

const PARALLEL_INSPECTIONS = 8;
const HUNG_MAX = 2_000;

/** Finds the containers of this installation's agents, by name if possible. */
export class ContainerLookup {
  private readonly generations = new Generations();
  /** The reasons why the engine hung at the start of containers, by their ids and names. */
  private readonly hung = new LRUCache<string, string>({ max: HUNG_MAX });
  /** The agents with outdated containers; null until a list of all containers was read. */
  private outdated: Set<string> | null = null;

  constructor(
    private readonly docker: Dockerode,
    private readonly identities: ContainerIdentities,
    private readonly health: EngineHealth,
  ) {}

  /**
   * Inspects a container, given by its name or id. Throws `ContainerGone` if there is none, and `RuntimeRefused` if the engine does not
   * respond for one at whose start it hung.
   */
  async inspect(handle: ContainerHandle): Promise<Dockerode.ContainerInspectInfo> {
    try {
      const found = await this.health.observe(() =>
        call(handle, (abortSignal) => this.docker.getContainer(handle).inspect({ abortSignal })),
      );
      this.hung.delete(handle);
      return found;
    } catch (error) {
      const reason = this.hung.get(handle);
      if (reason === undefined || !(error instanceof RuntimeUnavailable) || !(await this.health.available())) throw error;
      throw new RuntimeRefused(reason, { cause: error });
    }
  }

  /** Notes that the engine hung at the start of a container, with the reason. */
  noteHung(nameAndId: readonly string[], reason: string): void {
    for (const each of nameAndId) this.hung.set(each.replace(/^\//, ''), reason);
  }

  /** Inspects the container, but returns null if there is none. */
  async find(nameOrId: string): Promise<Dockerode.ContainerInspectInfo | null> {
    return this.inspect(nameOrId).catch((error: unknown) => {
      if (error instanceof ContainerGone) return null;
      throw error;
    });
  }

  /** Returns the identity of an inspected container; null if it is not one of this installation's agents. */
  identify({ Name, Config }: Dockerode.ContainerInspectInfo): KnownContainer | null {
    return this.identities.identify([Name], Config.Labels);
  }

  /** Returns the agent's containers. With the wanted generation, the engine need not list all of its containers. */
  async of(agentId: string, generation: number | undefined): Promise<ContainerView[]> {
    const possible = generation === undefined ? null : this.generations.possible(agentId, generation);
    const names =
      possible === null
        ? await containerIdsOf(this.docker, this.identities.instance, agentId)
        : possible.flatMap((each) => this.namesOf({ agentId, generation: each }));
    const found = await mapBounded(names, PARALLEL_INSPECTIONS, (name) => this.find(name));
    const views = found.flatMap((one) => {
      const known = one === null ? null : this.identify(one);
      return one === null || known?.agentId !== agentId ? [] : [view(known, one)];
    });
    if (views.every(({ outdated }) => outdated === undefined)) this.outdated?.delete(agentId);
    if (generation !== undefined) {
      const generations = views.map((each) => each.generation);
      this.generations.setFound(agentId, generation, generations);
    }
    return views;
  }

  /** Returns the containers of all agents. */
  async all(): Promise<ListedContainer[]> {
    const label = [`${labels.instance}=${this.identities.instance}`, labels.agent];
    const found = await eachContainer(this.docker, label, (listed) => {
      const known = this.identities.identify(listed.Names, listed.Labels);
      if (known === null) return null;
      this.expect(known);
      return listedView(known, listed);
    });
    const containers = found.filter((container) => container !== null);
    this.outdated ??= new Set(containers.flatMap(({ agentId, outdated }) => (outdated === undefined ? [] : [agentId])));
    return containers;
  }

  /** Notes that this container is being created, or was created by another process. */
  expect({ agentId, generation, outdated }: Omit<KnownContainer, 'deploymentId'>): void {
    this.generations.add(agentId, generation);
    if (outdated !== undefined) this.outdated?.add(agentId);
  }

  /** Notes that the agent may have a container of any name. */
  expectAny(agentId: string): void {
    this.generations.evict(agentId);
  }

  private namesOf(container: ContainerName): string[] {
    const mayBeOutdated = this.outdated === null || this.outdated.has(container.agentId);
    return mayBeOutdated ? [this.identities.nameOf(container), outdatedName(container)] : [this.identities.nameOf(container)];
  }
}
