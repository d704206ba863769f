import type Dockerode from 'dockerode';
import { ContainerGone, type ContainerHandle, type ContainerView, type ListedContainer } from '../../runtime.ts';
import { containerIdsOf, eachContainer } from '../engine/bulk-list.ts';
import type { EngineHealth } from '../engine/engine-health.ts';
import { call, mapBounded } from '../engine/engine.ts';
import { containerName, hasLabels, isNamedByUs, labels } from '../engine/names.ts';
import { listedView, view } from './container-view.ts';
import { Generations } from './generations.ts';

const LOOKS_AT_ONCE = 8;

/** Finds the containers of this installation's agents, by name where it can. */
export class ContainerLookup {
  private readonly generations = new Generations();

  constructor(
    private readonly docker: Dockerode,
    private readonly instance: string,
    private readonly health: EngineHealth,
  ) {}

  /** Returns what the engine tells of a container, given by its name or id. Throws `ContainerGone` if there is none. */
  look(handle: ContainerHandle): Promise<Dockerode.ContainerInspectInfo> {
    return this.health.observe(() => call(handle, (abortSignal) => this.docker.getContainer(handle).inspect({ abortSignal })));
  }

  /** Does as `look`, but returns null if there is no such container. */
  async standing(nameOrId: string): Promise<Dockerode.ContainerInspectInfo | null> {
    return this.look(nameOrId).catch((error: unknown) => {
      if (error instanceof ContainerGone) return null;
      throw error;
    });
  }

  /** Returns the agent's containers. The wanted generation spares the engine a look at all of its containers. */
  async of(agentId: string, generation: number | undefined): Promise<ContainerView[]> {
    const named = generation === undefined ? null : this.generations.possible(agentId, generation);
    const names =
      named === null
        ? await containerIdsOf(this.docker, this.instance, agentId)
        : named.map((each) => containerName({ agentId, generation: each }));
    const found = await mapBounded(names, LOOKS_AT_ONCE, (name) => this.standing(name));
    const own = { [labels.instance]: this.instance, [labels.agent]: agentId };
    const ours = found.filter((one) => one !== null).filter(({ Config }) => hasLabels(Config.Labels, own));
    const views = ours.filter(({ Name, Config }) => isNamedByUs(Name, Config.Labels)).map(view);
    if (generation !== undefined) {
      const generations = views.map((each) => each.generation);
      this.generations.setFound(agentId, generation, generations);
    }
    return views;
  }

  /** Returns the containers of all agents. */
  async all(): Promise<ListedContainer[]> {
    const found = await eachContainer(this.docker, [`${labels.instance}=${this.instance}`, labels.agent], (listed) => {
      if (!listed.Names.some((name) => isNamedByUs(name, listed.Labels))) return null;
      const container = listedView(listed);
      this.generations.add(container.agentId, container.generation);
      return container;
    });
    return found.filter((container) => container !== null);
  }

  /** Notes that a container of this generation is being created, or was created by another process. */
  expect(agentId: string, generation: number): void {
    this.generations.add(agentId, generation);
  }

  /** Notes that the agent may have a container of any name. */
  expectAny(agentId: string): void {
    this.generations.forget(agentId);
  }
}
