import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { timeoutSignal } from '../../src/kernel/async/timeout-signal.ts';
import type { BuilderSettings } from '../../src/runtime/docker/builder/open-builder.ts';
import { DockerRuntime } from '../../src/runtime/docker/docker-runtime.ts';
import type { ReferenceSource, ResolvedImage } from '../../src/runtime/image-source.ts';
import { builderImage } from './builder-image.ts';
import { DockerFixture } from './docker-fixture.ts';

export interface Build {
  files: Record<string, string>;
  accountId?: string;
  /** The images that the Dockerfile names. */
  bases?: string[];
  args?: Record<string, string>;
  secrets?: Record<string, string>;
  signal?: AbortSignal;
  log?: string[];
  runtime?: DockerRuntime;
}

/** A Docker runtime that builds Dockerfiles with BuildKit, and an image that contains only a busybox. */
export class BuilderFixture {
  private constructor(
    readonly bed: DockerFixture,
    readonly runtime: DockerRuntime,
    readonly image: string,
  ) {}

  static async open(settings: Partial<BuilderSettings> = {}): Promise<BuilderFixture> {
    const image = await builderImage();
    const bed = await DockerFixture.open();
    return new BuilderFixture(
      bed,
      runtimeOf(bed, { image, appArmor: 'unconfined', cacheMb: 2_048, caches: 4, builders: 3, ...settings }),
      image,
    );
  }

  /** Returns another runtime of the same installation, as another process would have it. */
  another(settings: Partial<BuilderSettings> = {}): DockerRuntime {
    return runtimeOf(this.bed, { image: this.image, appArmor: 'unconfined', cacheMb: 2_048, caches: 4, builders: 3, ...settings });
  }

  /** Builds a folder with these files. */
  async build({
    files,
    accountId = 'one',
    bases = [],
    args = {},
    secrets = {},
    signal = timeoutSignal(120_000),
    log = [],
    runtime = this.runtime,
  }: Build): Promise<ResolvedImage> {
    const directory = mkdtempSync(join(tmpdir(), 'mooring-build-'));
    try {
      for (const [name, content] of Object.entries(files)) {
        mkdirSync(dirname(join(directory, name)), { recursive: true });
        writeFileSync(join(directory, name), content);
      }
      const named = bases.map((reference): ReferenceSource => ({ kind: 'reference', reference, mayUse: async () => true }));
      const start = ['sleep', '300'];
      const source = { kind: 'dockerfile' as const, directory, dockerfile: 'Dockerfile', start, accountId, bases: named, args, secrets };
      return await runtime.ensureImage(source, (line) => log.push(line), signal);
    } finally {
      rmSync(directory, { recursive: true });
    }
  }

  /** Builds from the busybox image with these lines, and returns what the build printed. */
  async lines(lines: string[], other: Partial<Build> = {}): Promise<string[]> {
    const log: string[] = [];
    await this.build({
      files: { Dockerfile: [`FROM ${this.bed.image}`, ...lines, ''].join('\n') },
      bases: [this.bed.image],
      log,
      ...other,
    });
    return log;
  }

  /** Returns the containers of builders, those of one account or of all. */
  async builders(accountId?: string): Promise<string[]> {
    return (await this.bed.docker.listContainers({ all: true, filters: this.filters(accountId) })).map(({ Id }) => Id);
  }

  /** Returns the caches of builds, those of one account or of all. */
  async caches(accountId?: string): Promise<string[]> {
    const { Volumes } = await this.bed.docker.listVolumes({ filters: JSON.stringify(this.filters(accountId)) });
    return (Volumes ?? []).map(({ Name }) => Name);
  }

  private filters(accountId?: string): { label: string[] } {
    return {
      label: [`mooring.instance=${this.bed.instance}`, accountId === undefined ? 'mooring.builder' : `mooring.builder=${accountId}`],
    };
  }

  async close(): Promise<void> {
    await this.runtime.close();
    await this.bed.close();
  }
}

function runtimeOf({ docker, instance, containerKey }: DockerFixture, builder: BuilderSettings): DockerRuntime {
  return new DockerRuntime({ instance, containerKey, docker, helperImage: null, ociRuntime: null, egress: 'all', builder });
}
