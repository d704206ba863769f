import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { fetchRepository, type FetchRequest } from '../../src/builds/git/fetch-repository.ts';
import { parseRepositoryUrl } from '../../src/builds/git/repository-url.ts';
import { GitServer } from './git-server.ts';

const MIB = 1024 * 1024;

/** A Git server on loopback, and a folder into which repositories are fetched. */
export class FetchedRepositories {
  private constructor(
    readonly server: GitServer,
    readonly folder: string,
  ) {}

  static async open(): Promise<FetchedRepositories> {
    return new FetchedRepositories(await GitServer.start(), await mkdtemp(join(tmpdir(), 'mooring-fetch-')));
  }

  /** Fetches the branch `main` into the folder `one`, within bounds that a test's repository does not reach. */
  fetch(url: string, more: Partial<FetchRequest> = {}): ReturnType<typeof fetchRepository> {
    return fetchRepository({
      repository: parseRepositoryUrl(url),
      branch: 'main',
      isAllowed: true,
      credential: null,
      folder: join(this.folder, 'one'),
      limits: { receivedBytesMax: 64 * MIB, filesBytesMax: 64 * MIB, filesMax: 1_000, seconds: 120 },
      signal: new AbortController().signal,
      ...more,
    });
  }

  /** Returns the name and the message of the error that refuses a fetch. */
  refusal(url: string, more?: Partial<FetchRequest>): Promise<string> {
    return this.fetch(url, more).then(
      () => 'fetched',
      (error: Error) => `${error.name}: ${error.message}`,
    );
  }

  async close(): Promise<void> {
    await this.server.close();
    await rm(this.folder, { recursive: true, force: true });
  }
}
