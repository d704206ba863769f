import { mkdir, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';

import type { ResolveHost } from '../../kernel/network/public-addresses.ts';
import { FetchBudget, type FetchLimits } from './fetch-budget.ts';
import { GitGateway, type LeastSpeed } from './git-gateway.ts';
import { ENDED_BY_SIGNAL, GitMissing, runGit, type GitCall, type GitResult } from './git-process.ts';
import { fetchLfsObjects, lfsEndpoint } from './lfs-objects.ts';
import { lfsNote, NamedContents, printable, submodulesNote } from './named-contents.ts';
import { RepositoryRefused } from './repository-refused.ts';
import { branchProblem, type RepositoryUrl } from './repository-url.ts';
import { folderOf, submodulesOf, submoduleUrl, type Submodule } from './submodules.ts';
import { unpackCommit } from './unpack.ts';

const MEMORY_BYTES_MAX = 4 * 1024 ** 3;
const LEAST_SPEED: LeastSpeed = { bytes: 1_000, withinMs: 60_000 };
const FETCHED = 'refs/mooring/fetched';
/** The commit that was fetched. A tag may lead to it by an object of its own. */
const COMMIT = `${FETCHED}^{commit}`;
/** The branch of a deployment that names none. */
const DEFAULT_BRANCH = 'main';
const fetchWords = [
  'fetch',
  '--quiet',
  '--depth=1',
  '--no-tags',
  '--no-recurse-submodules',
  '--no-auto-maintenance',
  '--no-write-fetch-head',
];
const aHash = /^([0-9a-f]{40}|[0-9a-f]{64})$/i;
const aShortHash = /^[0-9a-f]{7,39}$/i;
const noSuchRef = /couldn't find remote ref|not our ref|unadvertised object|remote error: upload-pack: not our ref/i;
const OUTPUT_CHARACTERS_MAX = 64 * 1024;
/** No attributes leave out or change files. */
const attributes = '* -export-ignore -export-subst -text -eol -ident -filter -working-tree-encoding\n';

export interface FetchRequest {
  repository: RepositoryUrl;
  /** The name of a branch or tag, or the hash of a commit. Where a repository has no `main`, that stands for its default branch. */
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

export interface FetchedRepository {
  /** The folder with the files of the commit, without Git's own. */
  directory: string;
  commitSha: string;
  /** The name by which the commit was found, such as "the tag v1"; null if it is the hash itself. */
  found: string | null;
  /** Sentences on what the commit names: what of it was fetched, and what was not. */
  notes: string[];
}

/**
 * Fetches one commit and unpacks its files: the newest of a branch, or else that of a tag, or the one of that hash. Submodules on the same host and
 * files in Git LFS are fetched too, within the same limits. Throws `RepositoryRefused` with a sentence for the build log, or the signal's reason. The
 * caller removes the folder. If this process dies meanwhile, Git loses its connection or its reader and ends; its limits end it otherwise.
 */
export async function fetchRepository(request: FetchRequest): Promise<FetchedRepository> {
  const { folder, signal, limits } = request;
  signal.throwIfAborted();
  await rm(folder, { recursive: true, force: true });
  const directory = join(folder, 'files');
  await mkdir(directory, { recursive: true, mode: 0o700 });
  try {
    return { directory, ...(await fetchInto(request, new FetchBudget(limits), directory, null)) };
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof GitMissing)
      throw new RepositoryRefused('This machine has no git, which deployments from repositories need: the operator has to install it.');
    throw error;
  }
}

/** A repository whose commit is the submodule of another. */
interface Inner {
  commit: string;
  depth: number;
}

/** Fetches a commit and what it names into the empty directory: the one that the request names, or that of a submodule. */
async function fetchInto(
  request: FetchRequest,
  budget: FetchBudget,
  directory: string,
  inner: Inner | null,
): Promise<Omit<FetchedRepository, 'directory'>> {
  const git = join(request.folder, 'git');
  await makeRepository(git);
  const fetched = await fetchFiles(request, budget, { git, directory, commit: inner?.commit ?? null });
  await rm(git, { recursive: true, force: true });
  const { named, submodules, lfs, ...others } = fetched;
  const notes = await lfsNotes(request, budget, { directory, named, lfs });
  const depth = (inner?.depth ?? 0) + 1;
  budget.enter(submodules.length, depth);
  for (const { path, commit, repository } of submodules) {
    const folder = await folderOf(directory, path);
    const below = await fetchInto({ ...request, repository }, budget, folder, { commit, depth }).catch((error: unknown) => {
      if (!(error instanceof RepositoryRefused)) throw error;
      throw new RepositoryRefused(`The submodule ${printable(path)} could not be fetched. ${error.message}`, { cause: error.cause });
    });
    notes.push(`Fetched the submodule ${printable(path)} at the commit ${commit}`, ...below.notes);
  }
  const fetchedPaths = new Set(submodules.map(({ path }) => path));
  const left = named.submodules.filter((path) => !fetchedPaths.has(path.replace(/\/$/, '')));
  return { ...others, notes: [...submodulesNote(left), ...notes] };
}

/** Makes an empty repository as `git init --bare` does, whose process would take longer than all of this. */
async function makeRepository(git: string): Promise<void> {
  for (const each of ['objects', 'refs', 'info']) await mkdir(join(git, each), { recursive: true, mode: 0o700 });
  await writeFile(join(git, 'HEAD'), `ref: ${FETCHED}\n`);
  await writeFile(join(git, 'config'), '[core]\n\trepositoryformatversion = 0\n\tbare = true\n');
  await writeFile(join(git, 'info', 'attributes'), attributes);
}

/** The files of a commit, and what they name. */
interface FetchedFiles {
  commitSha: string;
  found: string | null;
  named: NamedContents;
  submodules: Submodule[];
  /** The address of Git LFS for the repository; null if it is on another host. */
  lfs: URL | null;
}

/** Fetches the commit without its history into the repository `git`, and unpacks its files into the directory. */
async function fetchFiles(
  request: FetchRequest,
  budget: FetchBudget,
  { git, directory, commit }: { git: string; directory: string; commit: string | null },
): Promise<FetchedFiles> {
  const { repository, isAllowed, credential, leastSpeed = LEAST_SPEED, resolve } = request;
  const isLocal = repository.protocol === 'file';
  if (isLocal && !isAllowed) throw new RepositoryRefused('Repositories at local paths are not allowed by the operator.');
  if (repository.protocol === 'http' && !isAllowed) throw new RepositoryRefused('Repositories are fetched over https only.');
  const gateway = isLocal ? null : await GitGateway.open({ repository, isAllowed, credential, budget, leastSpeed, resolve });
  try {
    const place: FetchPlace = { request, git, gateway, budget, named: new NamedContents() };
    const found = commit === null ? await fetchRef(place, directory) : await fetchCommit(place, directory, commit);
    const commitSha = await commitOf(place);
    const { named } = place;
    const submodules = named.submodules.length === 0 ? [] : await submodulesIn(place);
    return { found, commitSha, named, submodules, lfs: named.pointers.length === 0 ? null : await lfsServerOf(place) };
  } finally {
    await gateway?.close();
  }
}

interface FetchPlace {
  request: FetchRequest;
  git: string;
  gateway: GitGateway | null;
  budget: FetchBudget;
  named: NamedContents;
}

/** Fetches the commit of a submodule. */
async function fetchCommit(place: FetchPlace, directory: string, commit: string): Promise<null> {
  if (await unpackRef(place, commit, directory)) return null;
  throw new RepositoryRefused(`Its repository has no commit ${commit}.`);
}

/** Returns the submodules of the commit that can be fetched. */
async function submodulesIn(place: FetchPlace): Promise<Submodule[]> {
  const settings = await settingsIn(place, '.gitmodules', '^submodule\\..*\\.(path|url)$');
  const entries = await recordsOf(place, ['ls-tree', '-r', '-z', '--full-tree', COMMIT], (entry) => entry.startsWith('160000 '));
  return submodulesOf(settings, entries, place.request.repository);
}

/** Returns the address of Git LFS of the repository, which the commit may name; null if it is on another host. */
async function lfsServerOf(place: FetchPlace): Promise<URL | null> {
  const { repository } = place.request;
  if (repository.protocol === 'file') return null;
  const [setting] = place.named.hasLfsSettings ? await settingsIn(place, '.lfsconfig', '^lfs\\.url$') : [];
  if (setting === undefined) return lfsEndpoint(repository);
  const named = submoduleUrl(setting.slice(setting.indexOf('\n') + 1), repository);
  return named === null ? null : new URL(named.href);
}

/** Returns the settings in a file of the commit, each as its name, a line feed and its value; none if Git can't read them. */
async function settingsIn(place: FetchPlace, file: string, pattern: string): Promise<string[]> {
  // A file of the commit may name other files to include, which would be those of this machine.
  const args = ['config', '--no-includes', '--blob', `${COMMIT}:${file}`, '-z', '--get-regexp', pattern];
  const found = await recordsOf(place, args).catch((error: unknown) => {
    if (error instanceof RepositoryRefused) return [];
    throw error;
  });
  return found;
}

/** Returns the records that Git prints, each of which ends in a NUL, as far as they are wanted. */
async function recordsOf(place: FetchPlace, args: string[], isWanted: (record: string) => boolean = () => true): Promise<string[]> {
  const records: string[] = [];
  const read = async (stdout: Readable) => {
    let rest = '';
    for await (const text of stdout.setEncoding('utf8')) {
      const parts = (rest + (text as string)).split('\0');
      rest = parts.pop() ?? '';
      if (rest.length > OUTPUT_CHARACTERS_MAX) throw new RepositoryRefused('The files of the commit could not be read.');
      records.push(...parts.filter(isWanted));
    }
  };
  const { exitCode, stderr } = await run(place, { args, read });
  if (exitCode !== 0) throw new RepositoryRefused('The files of the commit could not be read.', { cause: new Error(stderr) });
  return records;
}

/** Fetches the contents of files in Git LFS. Returns sentences on them. */
async function lfsNotes(
  { folder, isAllowed, credential, resolve, signal }: FetchRequest,
  budget: FetchBudget,
  { directory, named, lfs }: { directory: string; named: NamedContents; lfs: URL | null },
): Promise<string[]> {
  const { pointers } = named;
  if (pointers.length === 0) return [];
  if (lfs === null)
    return lfsNote(
      pointers.map(({ path }) => path),
      null,
    );
  const server = { endpoint: lfs, isAllowed, credential, resolve };
  return fetchLfsObjects({ server, directory, temporary: join(folder, 'object'), budget, signal }, pointers);
}

/** Fetches what the name stands for, and unpacks it. Returns what it was; null for a commit. */
async function fetchRef(place: FetchPlace, directory: string): Promise<string | null> {
  const { branch } = place.request;
  if (await unpackRef(place, `refs/heads/${branch}`, directory)) return `the branch ${branch}`;
  if (await unpackRef(place, `refs/tags/${branch}`, directory)) return `the tag ${branch}`;
  if (aHash.test(branch) && (await unpackRef(place, branch.toLowerCase(), directory))) return null;
  const name = await defaultBranch(place);
  if (branch === DEFAULT_BRANCH && name !== null && (await unpackRef(place, `refs/heads/${name}`, directory)))
    return `its default branch ${name}, since it has no ${DEFAULT_BRANCH}`;
  const told = name === null ? '' : ` Its default branch is ${name}.`;
  const short = aShortHash.test(branch) ? ' A commit is named by its whole hash.' : '';
  throw new RepositoryRefused(`The repository has no branch, tag or commit ${branch}.${told}${short}`);
}

/** Fetches the ref and unpacks its files. Returns false if the repository has none of that name. */
async function unpackRef(place: FetchPlace, ref: string, directory: string): Promise<boolean> {
  const { exitCode, stderr } = await run(place, {
    args: [...fetchWords, 'origin', `+${ref}:${FETCHED}`],
    // Without the option for attributes Git lists all files of the commit in memory first, to read those that the repository sets.
    second: `archive --worktree-attributes --format=tar ${COMMIT}`,
    read: async (tar) => {
      place.named = await unpackCommit(tar, directory, place.budget);
    },
  });
  if (exitCode === 0) return true;
  if (place.gateway?.failure == null && noSuchRef.test(stderr)) return false;
  const sentence = (await isFetched(place.git)) ? 'The files of the commit could not be read.' : null;
  throw new RepositoryRefused(sentence ?? place.gateway?.failure ?? refusalOf(exitCode, stderr), { cause: new Error(stderr) });
}

/** Returns the name of the branch that the repository calls its default; null if it does not say it. */
async function defaultBranch(place: FetchPlace): Promise<string | null> {
  const said = await outputOf(place, ['ls-remote', '--symref', 'origin', 'HEAD']).catch((error: unknown) => {
    if (error instanceof RepositoryRefused) return '';
    throw error;
  });
  const name = /^ref: refs\/heads\/(\S+)\tHEAD$/m.exec(said)?.[1] ?? null;
  return name === null || branchProblem(name) !== null ? null : name;
}

function commitOf(place: FetchPlace): Promise<string> {
  return outputOf(place, ['rev-parse', '--verify', '--quiet', COMMIT]);
}

async function outputOf(place: FetchPlace, args: string[]): Promise<string> {
  let said = '';
  const read = async (stdout: Readable) => {
    for await (const chunk of stdout) if (said.length < OUTPUT_CHARACTERS_MAX) said += (chunk as Buffer).toString();
  };
  const { exitCode, stderr } = await run(place, { args, read });
  if (exitCode !== 0) throw new RepositoryRefused(place.gateway?.failure ?? refusalOf(exitCode, stderr), { cause: new Error(stderr) });
  return said.trim();
}

function run({ request, git, gateway }: FetchPlace, call: Pick<GitCall, 'args' | 'second' | 'read'>): Promise<GitResult> {
  const { repository, limits, signal } = request;
  return runGit({
    ...call,
    directory: git,
    protocol: gateway === null ? 'file' : 'http',
    settings: { 'remote.origin.url': gateway?.url ?? repository.href },
    limits: { fileBytesMax: limits.receivedBytesMax, memoryBytesMax: MEMORY_BYTES_MAX, cpuSecondsMax: limits.seconds },
    signal,
  });
}

function isFetched(git: string): Promise<boolean> {
  return stat(join(git, FETCHED)).then(
    () => true,
    () => false,
  );
}

/** Returns the sentence for a failed fetch. Git's own messages may hold the gateway's address and are not shown. */
function refusalOf(exitCode: number, stderr: string): string {
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
