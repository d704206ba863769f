import type Dockerode from 'dockerode';
import type { ContainerHandle, ContainerState } from '../../container.ts';
import { ContainerGone, RuntimeRefused, RuntimeUnavailable } from '../../runtime.errors.ts';
import type { EngineChecks } from '../engine/engine-checks.ts';
import { isFreezeUnsupported } from '../engine/engine-facts.ts';
import { call, CALL_TIMEOUT_MS, ignoring304, statusOf, until } from '../engine/engine.ts';
import type { ContainerLookup } from './container-lookup.ts';
import { hasLabels } from '../engine/names.ts';
import { isMadeAs } from '../networks/published-ports.ts';
import { addressLabels, inspectedState } from './container-view.ts';

/** The attempts to create a container, 50 ms apart. */
const CREATE_TRIES_MAX = 200;
/** The most checks of a removal that the engine has begun. */
const REMOVAL_CHECKS_MAX = 100;
const REMOVAL_CHECK_MS = 100;

/** Creates, stops, freezes, thaws and removes containers. A container that is in the wanted state already is left unchanged. */
export class ContainerLife {
  constructor(
    private readonly docker: Dockerode,
    private readonly containers: ContainerLookup,
    private readonly engine: EngineChecks,
  ) {}

  /** Creates the container, or returns the existing one if it is the same. Any other container of ours with the name is removed. */
  async createOrAdopt(name: string, options: Dockerode.ContainerCreateOptions): Promise<Dockerode.Container> {
    const made = await until(
      async () => {
        const created = await call(null, (abortSignal) => this.docker.createContainer({ ...options, abortSignal })).catch(
          (error: unknown) => {
            if (statusOf(error) === 409) return null;
            throw error;
          },
        );
        if (created !== null) return created;
        const standing = await this.containers.find(name);
        // The engine reserves the name before the container is visible: another call is creating it right now.
        if (standing === null) return null;
        if (this.containers.identify(standing) === null)
          throw new RuntimeRefused(`A container named ${name} exists that this installation did not make.`);
        const isWanted = isMadeAs(standing.HostConfig, options.HostConfig);
        if (isWanted && hasLabels(standing.Config.Labels, { ...options.Labels, ...addressLabels(standing) }))
          return this.docker.getContainer(standing.Id);
        await this.remove(standing.Id);
        return null;
      },
      CREATE_TRIES_MAX,
      50,
    );
    if (made === null) throw new RuntimeRefused(`The container name ${name} is still in use.`);
    return made;
  }

  async stop(handle: ContainerHandle, graceSeconds: number): Promise<void> {
    if (inspectedState(await this.containers.inspect(handle)) === 'frozen') await this.thaw(handle);
    const t = Math.ceil(graceSeconds);
    const stop = (abortSignal: AbortSignal) => this.docker.getContainer(handle).stop({ t, abortSignal });
    await ignoring304(call(handle, stop, t * 1_000 + CALL_TIMEOUT_MS));
  }

  async freeze(handle: ContainerHandle): Promise<void> {
    const pause = (abortSignal: AbortSignal) => this.docker.getContainer(handle).pause({ abortSignal });
    try {
      await this.settle(handle, 'frozen', () => call(handle, pause));
    } catch (error) {
      if (error instanceof RuntimeRefused && isFreezeUnsupported(error)) this.engine.noteFreezeRefused();
      throw error;
    }
  }

  async thaw(handle: ContainerHandle): Promise<void> {
    await this.settle(handle, 'running', () => call(handle, (abortSignal) => this.docker.getContainer(handle).unpause({ abortSignal })));
  }

  async remove(handle: ContainerHandle): Promise<void> {
    const container = this.docker.getContainer(handle);
    const gone = await until(
      async () => {
        try {
          // `v` also removes the anonymous volumes that the image declared, but never a named one.
          await call(handle, (abortSignal) => container.remove({ force: true, v: true, abortSignal }));
          return true;
        } catch (error) {
          if (error instanceof ContainerGone) return true;
          if (statusOf(error) !== 409) throw error;
          return null;
        }
      },
      REMOVAL_CHECKS_MAX,
      REMOVAL_CHECK_MS,
    );
    if (gone === null) throw new RuntimeUnavailable(new Error(`the removal of ${handle} does not end`));
  }

  /** Removes a container that can't serve, and throws `ContainerGone`, after which the agent gets another container. */
  async removeForAnother(handle: ContainerHandle): Promise<never> {
    await this.remove(handle);
    throw new ContainerGone(handle);
  }

  /** Ignores a refusal if the container is in the wanted state already. */
  private async settle(handle: ContainerHandle, wanted: ContainerState, act: () => Promise<unknown>): Promise<void> {
    try {
      await act();
    } catch (error) {
      if (!(error instanceof RuntimeRefused) || inspectedState(await this.containers.inspect(handle)) !== wanted) throw error;
    }
  }
}
