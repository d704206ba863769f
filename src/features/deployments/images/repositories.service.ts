import { rm } from 'node:fs/promises';
import { join } from 'node:path';

import { Inject, Injectable, Optional, type OnApplicationBootstrap } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';

import type { Agent, Deployment } from '../../agents/index.ts';
import { RESOLVE_HOST, SourceHosts } from '../../agents/services.ts';
import { Config, type Builder } from '../../../kernel/config/config.ts';
import { fetchRepository, removeOldFetches } from '../../../builds/git/fetch-repository.ts';
import { parseRepositoryUrl } from '../../../builds/git/repository-url.ts';
import type { RunSettings } from '../../../builds/run-settings/run-settings.ts';
import { originLines, settingsOf } from '../../../builds/run-settings/settings-of-deployment.ts';
import type { ResolveHost } from '../../../kernel/network/public-addresses.ts';
import type { BuildSettings } from '../../../runtime/project-plan.ts';
import type { ImageSource } from '../../../runtime/image-source.ts';
import { OpenSourceCredential } from '../../secrets/index.ts';
import type { BuildLog } from '../records/build-log.ts';
import { RepositorySources } from './repository-sources.service.ts';

const MIB = 1024 ** 2;

/** Fetches the repositories of deployments for the builds of their images. */
@Injectable()
export class Repositories implements OnApplicationBootstrap {
  private readonly root: string;

  constructor(
    private readonly hosts: SourceHosts,
    private readonly sources: RepositorySources,
    private readonly queries: QueryBus,
    private readonly config: Config,
    @Optional() @Inject(RESOLVE_HOST) private readonly resolve?: ResolveHost,
  ) {
    this.root = join(config.dataDir, 'repositories');
  }

  /** The operator's settings for the commands of all builds. */
  get buildSettings(): BuildSettings {
    const { buildVariables: variables, buildCaFile: caFile } = this.config;
    return { variables, caFile };
  }

  /** The operator's choice of the builder for Dockerfiles. */
  get builder(): Builder {
    return this.config.builder;
  }

  onApplicationBootstrap(): Promise<void> {
    return this.removeLeftovers();
  }

  /**
   * Fetches the deployment's repository, calls `build` with it, and removes the files. Returns what `build` returns, the commit, the recognized
   * framework, or null, and the run settings that the agent or the repository says. Throws `RepositoryRefused`, and what `build` throws.
   */
  async build<T>(
    agentId: string,
    { accountId, settings: own }: Agent,
    deployment: Deployment,
    log: BuildLog,
    signal: AbortSignal,
    build: (source: ImageSource) => Promise<T>,
  ): Promise<T & { commitSha: string; framework: string | null; said: RunSettings }> {
    await this.removeLeftovers();
    const folder = join(this.root, deployment.id);
    try {
      const { directory, commitSha } = await this.fetch(deployment, accountId, folder, log, signal);
      const file = await this.sources.settingsIn(directory, accountId, signal);
      originLines({ own, file }).forEach(log.line);
      const said = settingsOf({ own, file });
      // A build may reach hosts that the agent may not, so that a push could send secrets there.
      const allowsSecrets = own.build_variables != null || (own.egress ?? 'internet') === 'internet';
      const owner = { accountId, agentId, settings: this.buildSettings, run: said, allowsSecrets };
      const source = await this.sources.sourceIn(directory, owner, log, signal);
      const built = await build(source);
      return { ...built, commitSha, framework: source.kind === 'project' ? source.plan.framework : null, said };
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  private async fetch({ repoUrl, branch }: Deployment, accountId: string, folder: string, log: BuildLog, signal: AbortSignal) {
    const repository = parseRepositoryUrl(repoUrl ?? '');
    const name = branch ?? 'main';
    log.line(`Fetching ${name} of ${repository.href}`);
    const { protocol, authority: host } = repository;
    const credential = protocol === 'file' ? null : await this.queries.execute(new OpenSourceCredential(accountId, { kind: 'git', host }));
    const fetched = await fetchRepository({
      repository,
      branch: name,
      isAllowed: this.hosts.isAllowedRepository(repository),
      credential,
      folder,
      limits: {
        receivedBytesMax: this.config.repositoryFetchMaxMb * MIB,
        filesBytesMax: this.config.repositoryMaxMb * MIB,
        filesMax: this.config.repositoryFilesMax,
        seconds: this.config.deployTimeoutSeconds,
      },
      signal,
      resolve: this.resolve,
    });
    log.line(`Fetched the commit ${fetched.commitSha}${fetched.found === null ? '' : ` of ${fetched.found}`}`);
    for (const note of fetched.notes) log.line(note);
    return fetched;
  }

  /** Removes the files of processes that died. No deployment takes longer than its timeout. */
  private removeLeftovers(): Promise<void> {
    return removeOldFetches(this.root, new Date(Date.now() - this.config.deployTimeoutSeconds * 1_000));
  }
}
