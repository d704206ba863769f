import type { Stats } from 'node:fs';
import { lstat, readlink, realpath } from 'node:fs/promises';
import { basename, dirname, join, resolve, sep } from 'node:path';
import { contains, filePath, type FilePath } from '../../file-paths.ts';
import { FileRefused } from '../../files.ts';
import { unless } from './file-errors.ts';

const LINKS_MAX = 40;
/** The errors after which the parent folder is resolved instead: unreachable files have a real path, too. */
const UNREACHED = ['ENOENT', 'ENOTDIR', 'EACCES'];

/** The two host folders that an agent of the local runtime sees as its own. */
export interface ContainerRoots {
  /** The names of the volume's mount point. */
  mount: readonly string[];
  /** The host's folder of the volume. */
  volume: string;
  /** The host's folder of everything else. */
  root: string;
}

/** A file or folder of an agent, which may not exist. */
export interface LocatedPath {
  /** The host's path, without links except for a last component that was not followed. */
  real: string;
  /** The path as the agent sees it. */
  path: string;
  /** The value is true for the volume's root and for `/`. */
  isRoot: boolean;
  /** The value is null if there is nothing at the path. */
  stats: Stats | null;
  /** The value is true if the folder above the path does not exist either. */
  lacksFolder: boolean;
}

export interface LocateOptions {
  /** The value is true if a link that is the last component is followed, too. */
  followsLast: boolean;
  /** The value is true if the path has to be inside the volume. */
  confined: boolean;
}

/** A path whose last components may not exist. */
interface RealPath {
  real: string;
  missing: readonly string[];
}

/**
 * Resolves an agent's path: its volume is at the mount point, and its other files are around it. Symbolic links are followed as the host
 * does, and targets outside of the two folders are refused. A process that swaps a folder for a link between this check and the use of the
 * path escapes: the local runtime does not isolate agents. Throws `FileRefused` and errors of the file system.
 */
export async function locate(given: ContainerRoots, path: FilePath, { followsLast, confined }: LocateOptions): Promise<LocatedPath> {
  const homes = { ...given, volume: await realpath(given.volume), root: await realpath(given.root) };
  const outside = confined ? 'outside_volume' : 'not_found';
  const { isInVolume, names } = beginningOf(given, path);
  let at: RealPath = { real: isInVolume ? homes.volume : homes.root, missing: [] };
  for (let next = 0; next < names.length;) {
    if (at.missing.length > 0) throw new FileRefused('not_found');
    const end = names.indexOf('..', next);
    if (end === next) at = { real: folderAbove(homes, at.real), missing: [] };
    else at = await below(homes, at.real, names.slice(next, end < 0 ? undefined : end), followsLast || end >= 0);
    if (!isIn(homes.volume, at.real) && !isIn(homes.root, at.real)) throw new FileRefused(outside);
    next = end < 0 ? names.length : Math.max(end, next + 1);
  }
  const real = join(at.real, ...at.missing);
  if (confined && !isIn(homes.volume, real)) throw new FileRefused(outside);
  const stats = await unless(['ENOENT'], lstat(real));
  const isRoot = real === homes.volume || real === homes.root;
  return { real, path: `/${containerPathOf(homes, real).join('/')}`, isRoot, stats, lacksFolder: at.missing.length > 1 };
}

/** Returns the names after the folder in which the path begins. The agent itself also uses the host's paths of its two folders. */
function beginningOf({ volume, root }: ContainerRoots, { absolute, parts }: FilePath): { isInVolume: boolean; names: readonly string[] } {
  if (!absolute) return { isInVolume: true, names: parts };
  for (const home of [volume, root]) {
    const host = filePath(home).parts;
    if (contains(host, parts)) return { isInVolume: home === volume, names: parts.slice(host.length) };
  }
  return { isInVolume: false, names: parts };
}

function folderAbove({ mount, volume, root }: ContainerRoots, folder: string): string {
  if (folder === volume) return join(root, ...mount.slice(0, -1));
  return folder === root ? root : dirname(folder);
}

/** Resolves the names, none of which is `..`, from the folder on. */
async function below(homes: ContainerRoots, folder: string, names: readonly string[], followsLast: boolean): Promise<RealPath> {
  const seen = [...containerPathOf(homes, folder), ...names];
  const path = contains(homes.mount, seen) ? join(homes.volume, ...seen.slice(homes.mount.length)) : join(folder, ...names);
  if (followsLast || path === homes.volume) return realPathOf(path);
  const above = await realPathOf(dirname(path));
  return above.missing.length === 0
    ? { real: join(above.real, basename(path)), missing: [] }
    : { ...above, missing: [...above.missing, basename(path)] };
}

/** Returns the real path of a file that may not exist, or of the target of a dangling link. */
async function realPathOf(path: string, links = 0): Promise<RealPath> {
  const found = await unless(UNREACHED, realpath(path));
  if (found !== null) return { real: found, missing: [] };
  const target = await unless([...UNREACHED, 'EINVAL'], readlink(path));
  if (target === null) {
    const above = await realPathOf(dirname(path), links);
    return { ...above, missing: [...above.missing, basename(path)] };
  }
  if (links === LINKS_MAX) throw new FileRefused('not_found');
  return realPathOf(resolve(await realpath(dirname(path)), target), links + 1);
}

/** Returns the names of the path as the agent sees it. */
function containerPathOf({ mount, volume, root }: ContainerRoots, real: string): string[] {
  const names = (home: string) =>
    real
      .slice(home.length)
      .split(sep)
      .filter((name) => name !== '');
  return isIn(volume, real) ? [...mount, ...names(volume)] : names(root);
}

function isIn(home: string, path: string): boolean {
  return path === home || path.startsWith(home + sep);
}
