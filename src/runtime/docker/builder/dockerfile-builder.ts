/**
 * Builds accounts' Dockerfiles with BuildKit.
 *
 * Owns: one build from its context to the image on the engine, and the findings of the probe. Does not own the builders (`BuilderPool`) or
 * the watch over a builder's use of disk (`guarded`).
 *
 * D1  A build runs in a container of the account that has no right on the host, on the engine, or to the network of agents.
 * D2  BuildKit fetches nothing itself: base images come from the engine, and the result is loaded into it.
 * D3  A builder that ends during a build is replaced, and the build begins again once.
 * D4  A host on which the probe failed is not tried again for some minutes.
 */
import type Dockerode from 'dockerode';
import { LRUCache } from 'lru-cache';

import { pause } from '../../../kernel/async/pause.ts';
import type { DockerfileBuilds } from '../../engine-status.ts';
import { RuntimeRefused } from '../../runtime.errors.ts';
import type { ContainerIdentities } from '../engine/container-identities.ts';
import { labels } from '../engine/names.ts';
import { tarOf, type TarEntry } from '../image-sources/build-context.ts';
import { refuseOwnLabels } from '../image-sources/own-labels.ts';
import { findImage } from '../image-sources/registry.ts';
import { refuseLargeConfig, type ImageConfig } from '../image-sources/large-config.ts';
import { BaseLayouts } from './base-layouts.ts';
import { BuildExceeds, BuilderLost, guarded, isFull } from './build-guard.ts';
import { BuildProgress, buildFailure } from './build-progress.ts';
import { addBusybox, beginBuild, buildCommand, LAYERS_FOLDER, runBuild, secretVariables, type Wanted } from './buildctl.ts';
import type { Builder } from './builder.ts';
import { execInBuilder, runInBuilder, shellCommand } from './builder-exec.ts';
import type { BuilderConfig } from './builder-options.ts';
import { BuilderPool, type PoolLimits } from './builder-pool.ts';
import { lackOfAnswers, lackOfStep, probeDockerfile } from './builder-probe.ts';
import { loadResult, resultOf, sharedLayers, type ResultImage } from './result-image.ts';

type Log = (line: string) => void;

/** D3: The most attempts of one build whose builder ends by itself. */
const ATTEMPTS = 2;
/** D4: The time after which a host that could not build is probed again, in ms. */
const LACKING_MS = 5 * 60_000;
/** The time to wait for the end of a builder whose command ended without an error of its own, in ms. */
const ENDING_MS = 2_000;
const UNCONFINED = 'the builders run without AppArmor: load deploy/builder/apparmor and name it in MOORING_BUILDER_APPARMOR';
const TEXTS_BYTES_MAX = 8 * 1024 * 1024;
/** The number of an account's last images that are remembered, because the engine may have their layers. */
const REMEMBERED_EACH = 3;
const REMEMBERED_ACCOUNTS = 10_000;

export interface DockerfileBuild {
  accountId: string;
  /** The files of the build, including the Dockerfile. */
  entries: TarEntry[];
  /** The Dockerfile's path among them. */
  dockerfile: string;
  /** The images that the Dockerfile references, by the references in it, and as the engine has them. */
  bases: readonly { reference: string; image: Dockerode.ImageInspectInfo }[];
  /** The values of the Dockerfile's arguments. */
  args?: Readonly<Record<string, string>>;
  /** The secrets that its steps may mount, by their ids. */
  secrets?: Readonly<Record<string, string>>;
  /** The name that the image gets on the engine. */
  name: string;
}

export interface BuilderParts {
  docker: Dockerode;
  identities: ContainerIdentities;
  limits: PoolLimits;
  /** Returns the settings of new builders, once their network exists. */
  means: (log: Log, signal: AbortSignal) => Promise<BuilderConfig>;
}

/** The BuildKit builds of this process. See D1 to D4. */
export class DockerfileBuilder {
  private readonly pool: BuilderPool;
  private readonly bases: BaseLayouts;
  private readonly recent = new LRUCache<string, string[]>({ max: REMEMBERED_ACCOUNTS });
  private found: (DockerfileBuilds & { at: number }) | undefined;

  constructor(private readonly parts: BuilderParts) {
    this.pool = new BuilderPool(parts.docker, parts.identities, parts.limits);
    this.bases = new BaseLayouts(parts.docker);
  }

  /** The findings of the probe, which runs with the first build. */
  get state(): DockerfileBuilds {
    return this.found ?? { lack: null, weakness: null };
  }

  /** Builds the image and loads it into the engine under its name. Throws `RuntimeRefused` with the reason of a build that failed. */
  async build(wanted: DockerfileBuild, log: Log, signal: AbortSignal): Promise<void> {
    const { found } = this;
    if (found !== undefined && found.lack !== null && Date.now() - found.at < LACKING_MS) throw new RuntimeRefused(found.lack);
    const prepare = () => this.parts.means(log, signal);
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.pool.use(wanted.accountId, prepare, signal, (builder, means) =>
          this.buildWith(builder, means, wanted, log, signal),
        );
      } catch (error) {
        if (!(error instanceof BuilderLost)) throw error;
        if (attempt >= ATTEMPTS)
          throw new RuntimeRefused(`${error.message}, twice: most often its steps needed more memory than they may have.`, {
            cause: error,
          });
        log(`${error.message}, which begins again`);
      }
    }
  }

  /** Ends all builders of this process. */
  close(): Promise<void> {
    return this.pool.close();
  }

  private async buildWith(builder: Builder, means: BuilderConfig, wanted: DockerfileBuild, log: Log, signal: AbortSignal): Promise<void> {
    const { cacheMb } = this.parts.limits;
    try {
      await guarded(builder, cacheMb, signal, async () => {
        await this.probe(builder, means);
        await this.transfer(builder, wanted, log, signal);
      });
    } catch (error) {
      if (!(error instanceof BuildExceeds) || builder.usedKb <= cacheMb * 1024) throw error;
      await this.pool.discard(builder);
      // The cache of a builder that just started is not measured before its build begins.
      throw isFull(builder.firstKb, cacheMb) ? new BuilderLost('The cache of the account left no room for the build') : error;
    }
  }

  private async transfer(builder: Builder, wanted: DockerfileBuild, log: Log, signal: AbortSignal): Promise<void> {
    const { instance } = this.parts.identities;
    const ids = [...new Set(wanted.bases.map(({ image }) => image.Id))];
    const layouts = await this.bases.ensure(builder, ids, signal);
    const bases = wanted.bases.flatMap(({ reference, image }) => {
      const layout = layouts.get(image.Id);
      return layout === undefined ? [] : [{ reference, layout }];
    });
    await unpack(builder, wanted.entries);
    const { dockerfile, args, secrets } = wanted;
    const built = await this.run(builder, { dockerfile, bases, args, secrets, labels: { [labels.instance]: instance } }, log);
    const { config } = JSON.parse(built.config) as { config?: ImageConfig };
    refuseOwnLabels(config?.Labels, instance);
    refuseLargeConfig(config);
    await this.load(builder, wanted, built, signal);
  }

  /** Runs BuildKit on the unpacked context, and returns the image. */
  private async run(builder: Builder, wanted: Wanted, log: Log): Promise<ResultImage> {
    const progress = new BuildProgress(log);
    const folders = [...new Set(wanted.bases.map(({ layout }) => layout.folder))];
    const texts: Buffer[] = [];
    let size = 0;
    const command = shellCommand(runBuild, String(folders.length), ...folders, ...buildCommand(wanted));
    const output = execInBuilder(builder, command, { environment: secretVariables(wanted) });
    let next = await output.next();
    for (; next.done !== true; next = await output.next()) {
      const { stream, payload } = next.value;
      if (stream === 'stderr') progress.push(payload);
      else if ((size += payload.length) <= TEXTS_BYTES_MAX) texts.push(payload);
      else throw new RuntimeRefused('The build ended with an image whose configuration is too large.');
    }
    progress.end();
    if (next.value !== 0) {
      // A step's failure has been reported. Without one the builder may be about to end.
      if (progress.failure === null) await Promise.race([builder.ended, pause(ENDING_MS)]);
      if (builder.isOver) throw new BuilderLost();
      throw new RuntimeRefused(buildFailure(progress));
    }
    const [manifest = '', config = ''] = Buffer.concat(texts).toString('utf8').split('\n');
    return resultOf(manifest, config);
  }

  private async load(builder: Builder, wanted: DockerfileBuild, built: ResultImage, signal: AbortSignal): Promise<void> {
    const { docker } = this.parts;
    const { accountId, name } = wanted;
    const remembered = this.recent.get(accountId) ?? [];
    const earlier = (await Promise.all(remembered.map((id) => findImage(docker, id)))).filter((image) => image !== null);
    const known = [...wanted.bases.map(({ image }) => image), ...earlier].map(({ RootFS }) => RootFS.Layers ?? []);
    const had = sharedLayers(built.diffIds, known);
    const place = { inside: builder, folder: LAYERS_FOLDER };
    try {
      await loadResult(docker, place, built, { name, had }, signal);
    } catch (error) {
      // The engine may have lost a layer meanwhile.
      if (had === 0 || !(error instanceof RuntimeRefused) || signal.aborted) throw error;
      await loadResult(docker, place, built, { name, had: 0 }, signal);
    }
    const found = await findImage(docker, name);
    if (found === null || JSON.stringify(found.RootFS.Layers ?? []) !== JSON.stringify(built.diffIds))
      throw new RuntimeRefused('The engine did not load the image as it was built.');
    this.recent.set(accountId, [found.Id, ...remembered.filter((id) => id !== found.Id)].slice(0, REMEMBERED_EACH));
  }

  /**
   * Runs a step that reports what steps can do on this host, once in the life of this process. Throws `RuntimeRefused` if they can do too
   * much.
   */
  private async probe(builder: Builder, { appArmor }: BuilderConfig): Promise<void> {
    if (this.found?.lack === null) return;
    await unpack(builder, [{ name: 'Dockerfile', type: 'file', mode: 0o644, content: probeDockerfile }]);
    const copied = await runInBuilder(builder, shellCommand(addBusybox));
    if (copied.exitCode !== 0) throw new RuntimeRefused(`The builder’s image lacks a program: ${copied.said}`);
    const lines: string[] = [];
    let lack: string | null;
    try {
      await this.run(builder, { dockerfile: 'Dockerfile', bases: [], labels: {}, isFresh: true }, (line) => lines.push(line));
      lack = lackOfAnswers(lines, builder.user);
    } catch (error) {
      if (!(error instanceof RuntimeRefused)) throw error;
      lack = lackOfStep(error.message);
    }
    this.found = { lack, weakness: appArmor === 'unconfined' ? UNCONFINED : null, at: Date.now() };
    if (lack !== null) throw new RuntimeRefused(lack);
  }
}

let lastStamp = 0;

/**
 * Unpacks the context. BuildKit considers a file unchanged if it has the size and the time that it had in the last build, so the files of
 * each build get a time of their own, in whole seconds. Whether steps use its cache is decided by the contents.
 */
async function unpack(builder: Builder, entries: TarEntry[]): Promise<void> {
  lastStamp = Math.max(Math.floor(Date.now() / 1_000), lastStamp + 1);
  const stamped = entries.map((entry) => ({ ...entry, mtime: new Date(lastStamp * 1_000) }));
  const begun = await runInBuilder(builder, shellCommand(beginBuild), tarOf(stamped));
  if (begun.exitCode !== 0) throw new RuntimeRefused(`The files could not be copied to the builder: ${begun.said.slice(0, 500)}`);
}
