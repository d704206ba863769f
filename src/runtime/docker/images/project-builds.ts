import { createHash } from 'node:crypto';
import type Dockerode from 'dockerode';
import { installedFolders, programFolders, variablesOfAgent, type ProjectPlan } from '../../project-plan.ts';
import type { ImageSource } from '../../image-source.ts';
import { folderEntries, hashOf, type TarEntry } from '../image-sources/build-context.ts';
import { findImage } from '../image-sources/registry.ts';
import { call, statusOf } from '../engine/engine.ts';
import { labels } from '../engine/names.ts';
import { runBuildStep } from './build-container.ts';
import { startCommand } from './command.ts';

type Log = (line: string) => void;
type Project = ImageSource & { kind: 'project' };

/** The version of the layout, a part of the hashes, so that a change of the steps makes other images. */
const LAYOUT_VERSION = 1;
const user = '10001:10001';

export interface Engine {
  docker: Dockerode;
  instance: string;
  memoryBytes: number;
  network: string;
  /** Returns the base image for the language. */
  base(language: ProjectPlan['language'], log: Log, signal: AbortSignal): Promise<string>;
  /** Notes that a build begins at the image, so that it is kept for the next one. */
  markBase(name: string): Promise<void>;
  /** Builds a Dockerfile among the entries and returns the id of the image. */
  build(entries: TarEntry[], name: string | null, log: Log, signal: AbortSignal): Promise<string>;
}

/**
 * Builds projects that have no Dockerfile: the base, the manifests, the packages, the files, the build and the start, in this order. The image
 * with the packages has a name made of all that the installation reads, so that a change of other files does not install them again.
 */
export class ProjectBuilds {
  constructor(private readonly engine: Engine) {}

  /** Returns the name of the project's image. Throws `RuntimeRefused` with the command that failed, `ShellCommand`. */
  async ensure({ directory, plan, settings }: Project, log: Log, signal: AbortSignal): Promise<string> {
    const { docker, instance } = this.engine;
    startCommand({}, plan.start);
    log(`Building ${plan.found}, which is started by ${JSON.stringify(plan.start)}`);
    const base = await this.engine.base(plan.language, log, signal);
    const { Id, Config } = (await findImage(docker, base)) ?? { Id: base, Config: { Env: [] } };
    const files = (await folderEntries(directory, 'app/')).filter(({ name }) => plan.install.length === 0 || !isInstalled(name));
    const manifests = plan.manifests.includes('.') ? files : files.filter(({ name }) => isManifest(name, plan.manifests));
    const frame = frameOf(base, instance, plan, Config.Env ?? []);
    const packagesKey = keyOf(Id, frame, await hashOf(manifests), plan.install, variablesOfAgent(settings));
    const name = `mooring-${instance}:project-${keyOf(packagesKey, await hashOf(files), plan.build, plan.start)}`;
    if ((await findImage(docker, name)) !== null) {
      log(`Using cache: nothing has changed since ${name} was built`);
      return name;
    }
    const from = plan.install.length === 0 ? null : await this.packages(packagesKey, frame, manifests, { plan, settings }, log, signal);
    const lines = from === null ? frame : [`FROM ${from}`];
    const entrypoint = `ENTRYPOINT ${JSON.stringify(plan.start)}`;
    const isBuilt = plan.build.length > 0;
    const context = contextOf([...lines, `COPY --chown=${user} app/ /app/`, ...(isBuilt ? [] : [entrypoint])], files);
    if (from !== null) await this.engine.markBase(from);
    const image = await this.engine.build(context, isBuilt ? null : name, log, signal);
    if (isBuilt) await this.run({ image, commands: plan.build, name, changes: [entrypoint] }, { plan, settings }, log, signal);
    return name;
  }

  private async packages(
    key: string,
    frame: string[],
    manifests: TarEntry[],
    project: Pick<Project, 'plan' | 'settings'>,
    log: Log,
    signal: AbortSignal,
  ): Promise<string> {
    const name = `mooring-${this.engine.instance}:packages-${key}`;
    if ((await findImage(this.engine.docker, name)) !== null) {
      log(`Using cache: the packages were installed before (${name})`);
      return name;
    }
    const image = await this.engine.build(contextOf([...frame, `COPY --chown=${user} app/ /app/`], manifests), null, log, signal);
    await this.run({ image, commands: project.plan.install, name, changes: [] }, project, log, signal);
    return name;
  }

  private async run(
    step: { image: string; commands: string[][]; name: string; changes: string[] },
    { plan, settings }: Pick<Project, 'plan' | 'settings'>,
    log: Log,
    signal: AbortSignal,
  ): Promise<void> {
    try {
      await runBuildStep(this.engine, { ...step, language: plan.language, settings }, log, signal);
    } catch (error) {
      await this.discard(step.image);
      throw error;
    }
  }

  /** Removes the image of a step that failed, which has no name. The engine keeps it if another image is made of it. */
  private async discard(image: string): Promise<void> {
    await call(null, () => this.engine.docker.getImage(image).remove()).catch((error: unknown) => {
      if (![404, 409].includes(statusOf(error) ?? 0)) throw error;
    });
  }
}

/** Returns the lines of a Dockerfile that make the place in which a project lies. */
function frameOf(base: string, instance: string, { env }: ProjectPlan, baseEnv: string[]): string[] {
  const path = baseEnv.find((line) => line.startsWith('PATH='))?.slice('PATH='.length) ?? '/usr/local/bin:/usr/bin:/bin';
  const variables = { ...env, HOME: '/tmp', PATH: [...programFolders.map((folder) => `/app/${folder}`), path].join(':') };
  return [
    `FROM ${base}`,
    `LABEL ${labels.instance}=${instance}`,
    ...Object.entries(variables).map(([name, value]) => `ENV ${name}="${value.replaceAll(/["\\$]/g, '\\$&')}"`),
    `COPY --chown=${user} root/ /`,
    'WORKDIR /app',
    `USER ${user}`,
  ];
}

function contextOf(dockerfile: string[], files: TarEntry[]): TarEntry[] {
  const folder = (name: string, mode: number): TarEntry => ({ name, type: 'directory', mode });
  return [
    { name: 'Dockerfile', type: 'file', mode: 0o644, content: `${dockerfile.join('\n')}\n` },
    folder('root', 0o755),
    folder('root/app', 0o755),
    // The mount point of agents' volumes, which every user may write to.
    folder('root/data', 0o777),
    folder('app', 0o755),
    ...files,
  ];
}

function isInstalled(name: string): boolean {
  return installedFolders.some((folder) => name === `app/${folder}` || name.startsWith(`app/${folder}/`));
}

function isManifest(name: string, manifests: string[]): boolean {
  return manifests.some((manifest) => name === `app/${manifest}` || `app/${manifest}`.startsWith(`${name}/`));
}

function keyOf(...parts: unknown[]): string {
  return createHash('sha256')
    .update(JSON.stringify([LAYOUT_VERSION, ...parts]))
    .digest('hex')
    .slice(0, 16);
}
