import { lstat, readdir, realpath } from 'node:fs/promises';
import { join } from 'node:path';

import { printable } from './named-contents.ts';
import { RepositoryRefused } from './repository-refused.ts';
import { parseRepositoryUrl, repositoryUrlProblem, type RepositoryUrl } from './repository-url.ts';

/** A submodule of a commit, whose address is on the host of the repository. */
export interface Submodule {
  path: string;
  commit: string;
  repository: RepositoryUrl;
}

const aSetting = /^submodule\.(.+)\.(path|url)$/s;
const aGitlink = /^160000 commit ([0-9a-f]{40}|[0-9a-f]{64})\t(.+)$/s;
/** The forms in which addresses for SSH and Git's own protocol name a host and a path. */
const otherForms = [/^(?:ssh|git):\/\/(?:[\w.-]+@)?([\w.-]+)\/(.+)$/, /^(?:[\w.-]+@)?([\w.-]+):(?!\/\/)\/?(.+)$/];

/**
 * Returns the submodules that can be fetched: those that the commit has, and whose addresses are on the repository's own host. `settings` are what Git
 * reads in `.gitmodules`, each as its name, a line feed and its value; `entries` are lines of `git ls-tree`.
 */
export function submodulesOf(settings: readonly string[], entries: readonly string[], parent: RepositoryUrl): Submodule[] {
  const commits = new Map(
    entries.flatMap((entry) => {
      const [, commit = '', path = ''] = aGitlink.exec(entry) ?? [];
      return path === '' ? [] : [[path, commit] as const];
    }),
  );
  const found = new Map<string, { path?: string; url?: string }>();
  for (const setting of settings) {
    const at = setting.indexOf('\n');
    const [, name, key] = aSetting.exec(setting.slice(0, at)) ?? [];
    if (at !== -1 && name !== undefined && key !== undefined) found.set(name, { ...found.get(name), [key]: setting.slice(at + 1) });
  }
  const submodules = new Map<string, Submodule>();
  for (const { path: named = '', url = '' } of found.values()) {
    const path = named.replace(/\/$/, '');
    const commit = commits.get(path);
    const repository = submoduleUrl(url, parent);
    if (commit !== undefined && repository !== null && !submodules.has(path)) submodules.set(path, { path, commit, repository });
  }
  return [...submodules.values()];
}

/**
 * Returns the address of a submodule on the repository's own host, which a relative one is, spoken to as the repository is; null for any other address.
 */
export function submoduleUrl(url: string, parent: RepositoryUrl): RepositoryUrl | null {
  if (/^\.\.?\//.test(url)) return addressOn(parent, relativePath(url, parent));
  if (parent.protocol === 'file') return null;
  if (/^https?:\/\//i.test(url)) {
    if (repositoryUrlProblem(url) !== null) return null;
    const { authority, href } = parseRepositoryUrl(url);
    return authority === parent.authority ? addressOn(parent, new URL(href).pathname.slice(1)) : null;
  }
  for (const form of otherForms) {
    const [, host, path] = form.exec(url) ?? [];
    if (host !== undefined && path !== undefined) return host.toLowerCase() === parent.authority ? addressOn(parent, path) : null;
  }
  return null;
}

/** Returns the path that a relative address leads to from that of the repository; null if it leads above the top. */
function relativePath(url: string, { href }: RepositoryUrl): string | null {
  const folders = new URL(href).pathname.split('/').filter((name) => name !== '');
  let rest = url;
  for (let up = /^(\.\.?)\/+/.exec(rest); up !== null; up = /^(\.\.?)\/+/.exec(rest)) {
    if (up[1] === '..' && folders.pop() === undefined) return null;
    rest = rest.slice(up[0].length);
  }
  return [...folders, rest].join('/');
}

function addressOn({ protocol, authority }: RepositoryUrl, path: string | null): RepositoryUrl | null {
  if (path === null) return null;
  const address = `${protocol}://${authority}/${path}`;
  return repositoryUrlProblem(address) === null ? parseRepositoryUrl(address) : null;
}

/** Returns the empty folder of a submodule among the unpacked files. Throws `RepositoryRefused` if something else is in its place, or in the folder. */
export async function folderOf(directory: string, path: string): Promise<string> {
  const folder = join(directory, path);
  const isFolder = await lstat(folder).then(
    (found) => found.isDirectory(),
    () => false,
  );
  // No link leads there, and none is in it, so that nothing is written elsewhere.
  if (!isFolder || (await realpath(folder)) !== join(await realpath(directory), path) || (await readdir(folder)).length > 0)
    throw new RepositoryRefused(`The repository has a submodule that has no folder of its own: ${printable(path)}.`);
  return folder;
}
