import type { Duplex } from 'node:stream';
import type Dockerode from 'dockerode';
import { call } from '../engine/engine.ts';
import { helperProgram, labels } from '../engine/names.ts';
import { attachInput, removeContainer } from '../engine/own-containers.ts';

/** The processes of a build, the one of its holder included. */
export const BUILD_PIDS_MAX = 1_024;
/** The cgroup in which the engine puts containers by default. */
const CONTAINERS_CGROUP = '/docker';

export interface CgroupLimits {
  /** The reason why the engine can't be told of a cgroup for a build; null if it can. */
  unbounded: string | null;
  /** The processors that a build may use at once. */
  cpus: number;
}

interface HolderOptions {
  instance: string;
  name: string;
  image: string;
  limits: CgroupLimits;
}

/**
 * A container that does nothing, for the time of one build. Its cgroup holds the cgroups of the build's steps, so that its limit of processes is
 * theirs: the engine's API bounds those of a step in no other way. It ends with its input, which ends with this process, and shows other
 * processes that the build goes on.
 */
export class BuildHolder {
  private constructor(
    private readonly container: Dockerode.Container,
    private readonly input: Duplex,
    /** The cgroup for the steps of the build; null if the engine takes none. */
    readonly cgroup: string | null,
  ) {}

  static async start(docker: Dockerode, options: HolderOptions): Promise<BuildHolder> {
    const container = await call(null, (abortSignal) => docker.createContainer({ ...holderOptions(options), abortSignal }));
    try {
      const input = await attachInput(container);
      await call(container.id, (abortSignal) => container.start({ abortSignal }));
      return new BuildHolder(container, input, options.limits.unbounded === null ? `${CONTAINERS_CGROUP}/${container.id}` : null);
    } catch (error) {
      await remove(container).catch(() => undefined);
      throw error;
    }
  }

  async end(): Promise<void> {
    this.input.destroy();
    await remove(this.container);
  }
}

function holderOptions({ instance, name, image, limits }: HolderOptions): Dockerode.ContainerCreateOptions {
  return {
    name,
    Image: image,
    Entrypoint: [helperProgram, 'cat'],
    Cmd: [],
    OpenStdin: true,
    StdinOnce: true,
    Labels: { [labels.instance]: instance, [labels.build]: name },
    HostConfig: {
      AutoRemove: true,
      NetworkMode: 'none',
      ReadonlyRootfs: true,
      CapDrop: ['ALL'],
      SecurityOpt: ['no-new-privileges:true'],
      PidsLimit: BUILD_PIDS_MAX,
      LogConfig: { Type: 'none', Config: {} },
      ...(limits.unbounded === null ? { CgroupParent: CONTAINERS_CGROUP } : {}),
    },
  };
}

/** Its removal is on its way already if it has ended by itself. */
const remove = (container: Dockerode.Container): Promise<void> => removeContainer(container, [404, 409]);
