import type Dockerode from 'dockerode';

import { retry } from '../../../kernel/async/retry.ts';
import { RuntimeRefused } from '../../runtime.errors.ts';
import { call, statusOf } from '../engine/engine.ts';

/** The attempts to remove a layer, about 5 s in total: the engine stops the container of an aborted step with a delay. */
const REMOVAL = { firstMs: 50, lastMs: 1_000, attempts: 9 };
/** The number of layers of one build that are recorded; the engine allows fewer in one image. */
const LAYERS_MAX = 500;

/** One build, with the layers that it has created, without those from its base or from an earlier build. */
interface Build {
  made: string[];
  takesCached: boolean;
}

/**
 * Removes the layers of builds that were aborted. They are removed when no build of this process runs, since another build may have reused
 * them from the engine's cache. A build's own commands can print the same lines as the engine, so nothing is removed that has a name, a
 * container or a layer on top of it.
 */
export class BuildLayers {
  private readonly running = new Set<Build>();
  private abandoned: string[] = [];
  private removing: Promise<void> = Promise.resolve();

  constructor(private readonly docker: Dockerode) {}

  /** Runs a build, which passes on each line that the engine prints. Settles as the build does. */
  async follow<T>(signal: AbortSignal, build: (take: (line: string) => void) => Promise<T>): Promise<T> {
    await this.removing;
    const one: Build = { made: [], takesCached: true };
    this.running.add(one);
    try {
      return await build((line) => note(one, line));
    } finally {
      this.running.delete(one);
      if (signal.aborted) this.abandoned.push(...one.made);
      if (this.running.size === 0) await (this.removing = this.removeAbandoned());
    }
  }

  private async removeAbandoned(): Promise<void> {
    const layers = this.abandoned.splice(0).toReversed();
    const isRefused = (error: unknown) => error instanceof RuntimeRefused;
    for (const layer of layers) {
      const failure: unknown = await retry(() => this.remove(layer), { ...REMOVAL, mayPass: isRefused }).catch((error: unknown) => error);
      // Without the engine nothing can be removed. The layers then stay in its cache, as those of any failed build.
      if (failure !== undefined && !isRefused(failure)) return;
    }
  }

  private async remove(layer: string): Promise<void> {
    try {
      await call(null, async (abortSignal) => {
        const image = this.docker.getImage(layer);
        const { RepoTags, RepoDigests } = await image.inspect({ abortSignal } as Dockerode.ImageInspectOptions);
        if ((RepoTags ?? []).length + (RepoDigests ?? []).length === 0) await image.remove({ abortSignal });
      });
    } catch (error) {
      // The removal of a layer also removes the layers below it that are no longer needed.
      if (statusOf(error) !== 404) throw error;
    }
  }
}

function note(build: Build, line: string): void {
  if (line.startsWith('Step ')) build.takesCached = /^Step \S+ : FROM\b/i.test(line);
  else if (line === ' ---> Using cache') build.takesCached = true;
  const layer = /^ ---> ([0-9a-f]{12})$/.exec(line)?.[1];
  if (layer !== undefined && !build.takesCached && build.made.length < LAYERS_MAX) build.made.push(layer);
}
