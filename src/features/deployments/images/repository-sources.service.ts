import { lstat, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { Injectable } from '@nestjs/common';

import type { Share } from '../../../kernel/limits/account-counter.ts';
import { Config } from '../../../kernel/config/config.ts';
import { RepositoryRefused } from '../../../builds/git/repository-refused.ts';
import { readProjectFiles } from '../../../builds/projects/project-files.ts';
import { readMooringJson } from '../../../builds/run-settings/read-mooring-json.ts';
import { rootFolder } from '../../../builds/run-settings/root-folder.ts';
import type { RunSettings } from '../../../builds/run-settings/run-settings.ts';
import type { BuildSettings } from '../../../runtime/project-plan.ts';
import type { ImageSource } from '../../../runtime/image-source.ts';
import { DEFAULT_PORT, Templates } from '../../templates/index.ts';
import type { BuildLog } from '../records/build-log.ts';
import { addFrameworkFiles } from './framework-files.ts';
import { BuildVariables } from './build-variables.service.ts';
import { ImageReferences } from './image-references.service.ts';
import { SourceReader } from './source-reader.service.ts';

const DOCKERFILE = 'Dockerfile';
const DOCKERFILE_BYTES_MAX = 256 * 1024;

/** The agent that a repository is built for, what the commands of all builds get, and the run settings that were said. */
export interface SourceOwner {
  accountId: string;
  agentId: string;
  settings: BuildSettings;
  run: RunSettings;
  /** Tells that the build may get the secrets that `run.build_variables` names. */
  allowsSecrets: boolean;
}

/** Determines how an image is built from the files of a repository. */
@Injectable()
export class RepositorySources {
  constructor(
    private readonly references: ImageReferences,
    private readonly templates: Templates,
    private readonly reader: SourceReader,
    private readonly variables: BuildVariables,
    private readonly config: Config,
  ) {}

  /** Returns the run settings in the mooring.json of the repository; empty if it has none. Throws `RepositoryRefused`. */
  async settingsIn(repository: string, accountId: string, signal: AbortSignal): Promise<RunSettings> {
    const text = await readMooringJson(repository);
    if (text === null) return {};
    const { agentMemoryMaxMb, agentCpusMax } = this.config;
    return this.reader.settingsOf(text, { agentMemoryMaxMb, agentCpusMax }, { account: accountId, agent: repository }, signal);
  }

  /** Returns the source for the repository in the folder. Throws `RepositoryRefused`, or the runtime's refusal of a project. */
  async sourceIn(repository: string, owner: SourceOwner, log: BuildLog, signal: AbortSignal): Promise<ImageSource> {
    const { accountId, run } = owner;
    const settings = {
      ...owner.settings,
      ...(await this.variables.of(owner, { names: run.build_variables ?? null, allowsSecrets: owner.allowsSecrets }, log.line)),
    };
    const directory = await rootFolder(repository, run.root ?? '');
    const share = { account: accountId, agent: repository };
    const path = join(directory, DOCKERFILE);
    const found = await lstat(path).catch(() => null);
    if (found?.isFile() !== true) return this.projectIn(directory, { settings, run }, log, share, signal);
    if (found.size > DOCKERFILE_BYTES_MAX) throw new RepositoryRefused(`The Dockerfile has more than ${DOCKERFILE_BYTES_MAX / 1024} KiB.`);
    log.line('Found a Dockerfile');
    const { builder } = this.config;
    const { agent: given, secrets } = settings;
    const needs = await this.reader.needsOf({ text: await readFile(path, 'utf8'), builder, given }, share, signal);
    const bases = needs.bases.map((name) => this.references.sourceFor(name, accountId));
    const { args } = needs;
    return { kind: 'dockerfile', directory, dockerfile: DOCKERFILE, start: run.start ?? null, accountId, bases, args, secrets };
  }

  private async projectIn(
    directory: string,
    { settings, run }: Pick<SourceOwner, 'settings' | 'run'>,
    log: BuildLog,
    share: Share,
    signal: AbortSignal,
  ): Promise<ImageSource> {
    const { port = null, start = null } = run;
    const asked = async () => ({ files: await readProjectFiles(directory), start });
    const plan = async () => this.reader.planOf(await asked(), share, signal);
    const recognized = await plan();
    log.line(`Found ${recognized.found}`);
    const { framework } = recognized;
    if (framework !== null) await addFrameworkFiles(directory, framework, this.templates.get(framework));
    // The template's files may list packages of their own.
    const whole = framework === null ? recognized : await plan();
    for (const note of whole.notes ?? []) log.line(note);
    return { kind: 'project', directory, plan: whole, settings, port: port ?? DEFAULT_PORT };
  }
}
