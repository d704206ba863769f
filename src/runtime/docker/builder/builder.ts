/**
 * One builder of an account: a container with BuildKit that ends with this process.
 *
 * Owns: the container, and the measurements that its watcher prints. Does not own its cache, a volume that stays for the next builder.
 *
 * B1  The container ends when the connection to its input ends, so a killed process leaves no builder running.
 * B2  The settings of a new container are read back: an engine that ignored one of them runs no builds.
 * B3  A builder whose cache can no longer be measured takes no other build.
 */
import type { Duplex } from 'node:stream';
import type Dockerode from 'dockerode';

import { OutputLines } from '../../output-lines.ts';
import { RuntimeRefused, RuntimeUnavailable } from '../../runtime.errors.ts';
import { call, statusOf, until } from '../engine/engine.ts';
import { frames } from '../engine/frames.ts';
import { removeUntilGone } from '../engine/own-containers.ts';
import { ensureLabelledVolume, findVolume } from '../volumes/volumes.ts';
import type { InsideBuilder } from './builder-exec.ts';
import { builderLabels, cacheName, firstIdOf, type BuilderIdentity } from './builder-names.ts';
import { builderOptions, wrongBuilderSettings, type BuilderConfig } from './builder-options.ts';
import { lackOfStart } from './builder-probe.ts';

const READY_MS = 30_000;
const ERROR_CHARACTERS_MAX = 4_000;
/** The most replicas that build for one account at once, each with a builder and a cache of its own. */
const SLOTS = 8;
/** The attempts to create a builder in a slot that is in use, and the pause between them, in ms. */
const SLOT_ATTEMPTS = 10;
const SLOT_RETRY_MS = 200;

/** A builder. See B1 to B3. */
export class Builder implements InsideBuilder {
  /** The last measured size of the cache in KiB, with removed files that are still open; `Infinity` if the measurement took too long. */
  usedKb = 0;
  /** The value is true if the cache has more files than it may. */
  hasTooManyFiles = false;
  /** The free space and the size of the disk of the cache, in KiB. */
  disk = { freeKb: Infinity, sizeKb: Infinity };
  /** B3: The time of the measurement, by `performance.now()`; -Infinity if the cache is not measured any more. */
  measuredAt = performance.now();
  /** The size of the cache when the builder started; 0 until it was measured. */
  firstKb = 0;
  /** Resolves when the container has ended, whatever the reason. */
  readonly ended: Promise<void>;
  isOver = false;
  readonly user: number;
  private errorText = '';
  private onReady: () => void = () => undefined;
  private readonly ready = new Promise<void>((resolve) => (this.onReady = resolve));
  private removal: Promise<void> | null = null;

  private constructor(
    readonly identity: BuilderIdentity,
    readonly container: Dockerode.Container,
    private readonly attached: Duplex,
  ) {
    this.user = firstIdOf(identity);
    this.ended = this.read().finally(() => (this.isOver = true));
  }

  /**
   * Creates and starts a builder of the account. `makeRoom` is called before it gets a new cache. Throws `RuntimeRefused` if the engine
   * ignores one of its settings, or the host can't run it.
   */
  static async start(
    docker: Dockerode,
    owner: Omit<BuilderIdentity, 'slot'>,
    means: BuilderConfig,
    makeRoom: () => Promise<void>,
  ): Promise<Builder> {
    for (let slot = 0; slot < SLOTS; slot += 1) {
      const cache = await findVolume(docker, cacheName({ ...owner, slot }));
      if (cache === null) await makeRoom();
      const made = await create(docker, { ...owner, slot }, means);
      if (made !== null) return Builder.run(made, { ...owner, slot });
    }
    throw new RuntimeUnavailable(new Error('all slots for builders of an account are in use'));
  }

  private static async run(container: Dockerode.Container, place: BuilderIdentity): Promise<Builder> {
    const options = { stream: true, stdin: true, stdout: true, stderr: true, hijack: true };
    let builder: Builder | null = null;
    try {
      builder = new Builder(place, container, (await call(container.id, () => container.attach(options))) as unknown as Duplex);
      await call(container.id, (abortSignal) => container.start({ abortSignal }));
      await builder.untilReady();
      return builder;
    } catch (error) {
      await (builder?.remove() ?? removeUntilGone(container));
      const lack = error instanceof RuntimeRefused ? lackOfStart(error.message) : null;
      throw lack === null ? error : new RuntimeRefused(lack, { cause: error });
    }
  }

  /** B3: The value is true if it runs and its cache is measured, so that it can take another build. */
  get isSound(): boolean {
    return !this.isOver && this.measuredAt !== -Infinity;
  }

  /** Ends the builder with all processes in it. Its cache stays. */
  remove(): Promise<void> {
    this.isOver = true;
    this.removal ??= removeUntilGone(this.container).finally(() => this.attached.destroy());
    return this.removal;
  }

  private async untilReady(): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<'late'>((resolve) => (timer = setTimeout(() => resolve('late'), READY_MS)));
    const first = await Promise.race([this.ready.then(() => 'ready' as const), this.ended.then(() => 'ended' as const), late]);
    clearTimeout(timer);
    if (first === 'ended') throw new RuntimeRefused(this.errorText.trim() || 'the builder ended at its start without an error message');
    if (first === 'late') throw new RuntimeUnavailable(new Error(`a builder was not ready within ${READY_MS} ms: ${this.errorText}`));
  }

  private async read(): Promise<void> {
    const lines = new OutputLines((line) => this.apply(line));
    try {
      for await (const { stream, payload } of frames(this.attached)) {
        if (stream === 'stdout') lines.push(payload);
        else if (this.errorText.length < ERROR_CHARACTERS_MAX) this.errorText += payload.toString('utf8');
      }
    } catch {
      // The container has ended, or the engine, which ends it as well.
    }
  }

  private apply(line: string): void {
    if (line === 'ready') this.onReady();
    if (line === 'unwatched') this.measuredAt = -Infinity;
    const [, used, removedKb, freeKb, sizeKb] = /^used (long|many|\d+) (\d+) (\d+) (\d+)$/.exec(line) ?? [];
    if (used === undefined) return;
    this.measuredAt = performance.now();
    const isFirst = this.usedKb === 0;
    this.hasTooManyFiles = used === 'many';
    this.usedKb = /^\d+$/.test(used) ? Number(used) + Number(removedKb) : Infinity;
    this.disk = { freeKb: Number(freeKb), sizeKb: Number(sizeKb) };
    if (isFirst) this.firstKb = this.usedKb;
  }
}

/** Returns a new container, or null if another process has one in this slot. The container of a process that was just killed ends soon. */
async function create(docker: Dockerode, place: BuilderIdentity, means: BuilderConfig): Promise<Dockerode.Container | null> {
  await ensureLabelledVolume(docker, cacheName(place), builderLabels(place), means.cacheBytes);
  const options = builderOptions(place, means);
  const tried = (): Promise<Dockerode.Container | null> =>
    call(null, (abortSignal) => docker.createContainer({ ...options, abortSignal })).catch((error: unknown) => {
      if (statusOf(error) === 409) return null;
      throw error;
    });
  const container = await until(tried, SLOT_ATTEMPTS, SLOT_RETRY_MS);
  if (container === null) return null;
  const wrong = wrongBuilderSettings(options, await call(container.id, (abortSignal) => container.inspect({ abortSignal })));
  if (wrong.length === 0) return container;
  await removeUntilGone(container);
  throw new RuntimeRefused(`The container engine ignored settings of the builder, so no Dockerfile can be built: ${wrong.join(', ')}.`);
}
