import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { ResolveHost } from '../../kernel/network/public-addresses.ts';
import { GitGateway, type LeastSpeed } from './git-gateway.ts';
import { ENDED_BY_SIGNAL, GitMissing, runGit } from './git-process.ts';
import { RepositoryRefused } from './repository-refused.ts';
import type { RepositoryUrl } from './repository-url.ts';
import { unpackCommit } from './unpack.ts';

const MEMORY_BYTES_MAX = 4 * 1024 ** 3;
const LEAST_SPEED: LeastSpeed = { bytes: 1_000, withinMs: 60_000 };
const FETCHED = 'refs/heads/fetched';
const fetchWords = [
  'fetch',
  '--quiet',
  '--depth=1',
  '--no-tags',
  '--no-recurse-submodules',
  '--no-auto-maintenance',
  '--no-write-fetch-head',
];
/** No attributes leave out or change files. */
const attributes = '* -export-ignore -export-subst -text -eol -ident -filter -working-tree-encoding\n';

export interface FetchRequest {
  repository: RepositoryUrl;
  branch: string;
  isAllowed: boolean;
  credential: { username: string; password: string } | null;
  /** The folder for this fetch, which is emptied first. */
  folder: string;
  limits: FetchLimits;
  signal: AbortSignal;
  leastSpeed?: LeastSpeed;
  resolve?: ResolveHost;
}

export interface FetchLimits {
  /** The most bytes that are received. */
  receivedBytesMax: number;
  /** The most bytes of all files together. */
  filesBytesMax: number;
  /** The most files, folders and links. */
  filesMax: number;
  seconds: number;
}

export interface FetchedRepository {
  /** The folder with the files of the commit, without Git's own. */
  directory: string;
  commitSha: string;
}

/**
 * Fetches the newest commit of a branch and unpacks its files. Throws `RepositoryRefused` with a sentence for the build log, or the signal's
 * reason. The caller removes the folder. If this process dies meanwhile, Git loses its connection or its reader and ends; its limits end it
 * otherwise.
 */
export async function fetchRepository(request: FetchRequest): Promise<FetchedRepository> {
  const { folder, signal } = request;
  signal.throwIfAborted();
  await rm(folder, { recursive: true, force: true });
  const git = join(folder, 'git');
  const directory = join(folder, 'files');
  await mkdir(directory, { recursive: true, mode: 0o700 });
  await makeRepository(git);
  try {
    await fetchFiles(request, git, directory);
    // Git lets a branch lead to nothing but a commit.
    const commitSha = (await readFile(join(git, FETCHED), 'utf8')).trim();
    await rm(git, { recursive: true, force: true });
    return { directory, commitSha };
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof GitMissing)
      throw new RepositoryRefused('This machine has no git, which deployments from repositories need: the operator has to install it.');
    throw error;
  }
}

/** Makes an empty repository as `git init --bare` does, whose process would take longer than all of this. */
async function makeRepository(git: string): Promise<void> {
  for (const each of ['objects', 'refs', 'info']) await mkdir(join(git, each), { recursive: true, mode: 0o700 });
  await writeFile(join(git, 'HEAD'), `ref: ${FETCHED}\n`);
  await writeFile(join(git, 'config'), '[core]\n\trepositoryformatversion = 0\n\tbare = true\n');
  await writeFile(join(git, 'info', 'attributes'), attributes);
}

/** Fetches the branch's commit without its history into the repository `git`, and unpacks its files into the directory. */
async function fetchFiles(request: FetchRequest, git: string, directory: string): Promise<void> {
  const { repository, branch, isAllowed, credential, limits, signal, leastSpeed = LEAST_SPEED, resolve } = request;
  const isLocal = repository.protocol === 'file';
  const bytesMax = limits.receivedBytesMax;
  if (isLocal && !isAllowed) throw new RepositoryRefused('Repositories at local paths are not allowed by the operator.');
  if (repository.protocol === 'http' && !isAllowed) throw new RepositoryRefused('Repositories are fetched over https only.');
  const gateway = isLocal ? null : await GitGateway.open({ repository, isAllowed, credential, bytesMax, leastSpeed, resolve });
  try {
    const { exitCode, stderr } = await runGit({
      directory: git,
      protocol: isLocal ? 'file' : 'http',
      settings: { 'remote.origin.url': gateway?.url ?? repository.href },
      args: [...fetchWords, 'origin', `+refs/heads/${branch}:${FETCHED}`],
      // Without the option for attributes Git lists all files of the commit in memory first, to read those that the repository sets.
      second: `archive --worktree-attributes --format=tar ${FETCHED}`,
      read: (tar) => unpackCommit(tar, directory, { entriesMax: limits.filesMax, bytesMax: limits.filesBytesMax }),
      limits: { fileBytesMax: bytesMax, memoryBytesMax: MEMORY_BYTES_MAX, cpuSecondsMax: limits.seconds },
      signal,
    });
    if (exitCode === 0) return;
    const sentence = (await isFetched(git)) ? 'The files of the commit could not be read.' : null;
    throw new RepositoryRefused(sentence ?? gateway?.failure ?? refusalOf(exitCode, stderr, branch), { cause: new Error(stderr) });
  } finally {
    await gateway?.close();
  }
}

function isFetched(git: string): Promise<boolean> {
  return stat(join(git, FETCHED)).then(
    () => true,
    () => false,
  );
}

/** Returns the sentence for a failed fetch. Git's own messages may hold the gateway's address and are not shown. */
function refusalOf(exitCode: number, stderr: string, branch: string): string {
  if (/couldn't find remote ref/i.test(stderr)) return `The repository has no branch ${branch}.`;
  if (/does not appear to be a git repository|not found/i.test(stderr)) return 'There is no Git repository at this address.';
  if (exitCode > ENDED_BY_SIGNAL || /out of memory|file too large|file size limit|died of signal|index-pack/i.test(stderr))
    return 'The repository is damaged, or too large to be fetched.';
  return 'The repository could not be fetched.';
}

/** Removes folders of fetches that were begun before the time: those of processes that died. */
export async function removeOldFetches(root: string, before: Date): Promise<void> {
  const names = await readdir(root).catch(() => []);
  for (const name of names) {
    const found = await stat(join(root, name)).catch(() => null);
    if (found !== null && found.birthtimeMs < before.getTime()) await rm(join(root, name), { recursive: true, force: true });
  }
}
