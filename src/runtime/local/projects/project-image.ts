import { execFile } from 'node:child_process';
import { cp, lstat, mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { installedFolders, managerFolder, variablesOfAgent, type ProjectPlan } from '../../project-plan.ts';
import type { ImageSource, ResolvedImage } from '../../image-source.ts';
import { RuntimeRefused } from '../../runtime.errors.ts';
import { exists } from '../atomic-file.ts';
import { contentHash } from '../content-hash.ts';
import { copyTree } from '../copy-tree.ts';
import { writeImageRecord } from '../image-record.ts';
import { refuseShellString } from '../start-command.ts';
import type { BuildFolders } from './build-folders.ts';
import { BuildSteps } from './build-steps.ts';
import type { PackageStore } from './package-store.ts';
import { withOwnPrograms } from './virtual-environment.ts';

type ProjectSource = Extract<ImageSource, { kind: 'project' }>;

export interface ProjectPlaces {
  images: string;
  builds: BuildFolders;
  packages: PackageStore;
  /** The largest size of one build, in bytes. */
  bytesMax: number;
}

/** Records of package managers that contain the address of the operator's mirror. They are not needed at run time. */
const traces = ['.package-lock.json', '.yarn-integrity', '.yarn-state.yml', '.modules.yaml', '.pnpm-workspace-state-v1.json'];
const VERSION_MS = 20_000;

/**
 * Copies the project to a folder of its own, installs and builds it there, and stores the result by the hash of the project, its plan and
 * the language's version. Throws `RuntimeRefused` with one sentence if a command fails.
 */
export async function ensureProjectImage(
  places: ProjectPlaces,
  source: ProjectSource,
  log: (line: string) => void,
  signal: AbortSignal,
): Promise<ResolvedImage> {
  const { images, builds, packages, bytesMax } = places;
  const { directory, plan, settings } = source;
  refuseShellString(plan.start);
  const version = plan.language === 'python' ? await pythonVersion(signal) : `Node ${process.version}`;
  const image = await contentHash(
    directory,
    ['project', { ...plan, found: '' }, version, variablesOfAgent(settings)],
    leftOut(plan),
    signal,
  );
  const resolved = { image, name: `project:${image.slice(0, 12)}`, command: plan.start };
  if (await exists(join(images, image))) {
    log(`Using cache: nothing has changed since ${resolved.name} was built`);
    return resolved;
  }
  log(`Building ${plan.found} with ${version}`);
  const folder = await builds.make();
  try {
    const made = join(folder, 'image');
    const steps = new BuildSteps({ folder, bytesMax, settings, log, signal });
    await new ProjectBuild(source, version, join(made, 'files'), steps, packages).run(folder, log, signal);
    const { start, env: environment } = plan;
    await writeImageRecord(made, { start, environment, builtIn: join(made, 'files') });
    signal.throwIfAborted();
    await rename(made, join(images, image)).catch(async (error: unknown) => {
      // A concurrent call created the same image.
      if (!(await exists(join(images, image)))) throw error;
    });
    return resolved;
  } finally {
    await builds.remove(folder);
  }
}

/** Builds one project, in this order: manifests, packages, files, build commands. */
class ProjectBuild {
  constructor(
    private readonly source: ProjectSource,
    private readonly version: string,
    private readonly files: string,
    private readonly steps: BuildSteps,
    private readonly packages: PackageStore,
  ) {}

  async run(folder: string, log: (line: string) => void, signal: AbortSignal): Promise<void> {
    const { directory, plan, settings } = this.source;
    const given = await this.steps.variables();
    const PATH = withOwnPrograms(this.files, given.PATH ?? '');
    const agent = variablesOfAgent(settings);
    const environment = { ...given, ...plan.env, ...agent, PATH, ...settings.variables };
    const runAll = async (commands: string[][]) => {
      for (const command of commands) await this.steps.run(command, this.files, environment);
    };
    await mkdir(this.files, { recursive: true, mode: 0o700 });
    const isShared = plan.install.length > 0 && !plan.manifests.includes('.');
    if (isShared) {
      for (const manifest of plan.manifests) await copyIfThere(join(directory, manifest), join(this.files, manifest));
      const key = await contentHash(this.files, ['packages', plan.install, plan.env, this.version, agent], [], signal);
      if (await this.packages.copyInto(key, this.files)) log('Using cache: the packages were installed before');
      else {
        await runAll(plan.install);
        await this.packages.keep(key, this.files, folder);
      }
    }
    await copyTree(directory, this.files, leftOut(plan));
    signal.throwIfAborted();
    await runAll([...(isShared ? [] : plan.install), ...plan.build]);
    for (const owner of ['.', managerFolder])
      for (const trace of traces) await rm(join(this.files, owner, 'node_modules', trace), { force: true });
    if (!(await exists(join(directory, 'package-lock.json')))) await rm(join(this.files, 'package-lock.json'), { force: true });
  }
}

function leftOut({ install }: ProjectPlan): string[] {
  return install.length === 0 ? [] : [...installedFolders];
}

async function copyIfThere(from: string, to: string): Promise<void> {
  if ((await lstat(from).catch(() => null)) !== null) await cp(from, to, { recursive: true, verbatimSymlinks: true });
}

async function pythonVersion(signal: AbortSignal): Promise<string> {
  try {
    const env = { PATH: process.env.PATH ?? '/usr/local/bin:/usr/bin:/bin' };
    const { stdout } = await promisify(execFile)('python3', ['--version'], { signal, timeout: VERSION_MS, env });
    return stdout.trim();
  } catch (error) {
    signal.throwIfAborted();
    throw new RuntimeRefused(
      'This machine has no Python 3: install it (Debian: python3 and python3-venv), or run the service with Docker.',
      {
        cause: error,
      },
    );
  }
}
