/**
 * Keeps the engine from opening what an image or a program has put in place of `/etc/passwd` and `/etc/group`.
 *
 * The engine opens these files as root of its machine whenever it starts a container: a pipe would hang it, and a device would be a device
 * of that machine.
 *
 * Owns: the findings about images. Does not own the containers that are started.
 *
 * A1  An image is checked once, in a container that is never started and has no volume, so no program can interfere.
 * A2  A container that ran is started again only if its programs can't have changed the files: by their rights, or by the engine's list of
 *     changes, which follows no path.
 * A3  No volume may be mounted over the files, or over a folder on the way to them.
 */
import { posix } from 'node:path';
import type Dockerode from 'dockerode';
import { LRUCache } from 'lru-cache';
import { RuntimeRefused } from '../../runtime.errors.ts';
import { ownersIn, statsIn, type FileOwner, type FileStat } from '../engine/archive.ts';
import { eachChange } from '../engine/bulk-list.ts';
import type { ContainerIdentities } from '../engine/container-identities.ts';
import { withUnstarted } from '../engine/own-containers.ts';
import { findImage } from '../image-sources/registry.ts';
import { declaredVolumes } from '../image-sources/declared-volumes.ts';

const FOLDER = '/etc';
/** The files that the engine opens as root of its machine whenever it starts a container. */
const accountFiles: readonly string[] = ['/etc/passwd', '/etc/group'];
const FILE_BYTES_MAX = 1024 * 1024;
/** The most links and folders on the paths of volumes that are checked in one image. */
const STATS_MAX = 400;
const REMEMBERED_MAX = 10_000;

/** The mode bits that let users other than the owner write. */
const WRITABLE = 0o022;

type Stat = (path: string) => Promise<FileStat | null>;

interface Findings {
  /** The value is true if one of the files is a link, as in images made with Nix, whose target a program may change. */
  areLinked: boolean;
  /** The value is true if only root can change or replace the files. */
  areRoots: boolean;
}

export interface Checked {
  agentId: string;
  /** The id of the image. */
  image: string;
  volumePath: string;
}

/** Checks images and containers before they are started. See A1 to A3. */
export class AccountFiles {
  private readonly checked = new LRUCache<string, Findings>({ max: REMEMBERED_MAX });
  private readonly checking = new Map<string, Promise<Findings>>();

  constructor(
    private readonly docker: Dockerode,
    private readonly identities: ContainerIdentities,
  ) {}

  /** Throws `RuntimeRefused` if no container of the image may be started with the volume at this path. */
  async checkImage({ agentId, image, volumePath }: Checked): Promise<Findings> {
    const key = `${image} ${volumePath}`;
    const known = this.checked.get(key);
    if (known !== undefined) return known;
    const checking = this.checking.get(key) ?? this.checkOnce({ agentId, image, volumePath }).finally(() => this.checking.delete(key));
    this.checking.set(key, checking);
    const findings = await checking;
    this.checked.set(key, findings);
    return findings;
  }

  /**
   * A2: Returns whether the files are still those of the image. The engine lists the changes of a container without following a path, and
   * without its volumes, which other programs may change meanwhile. It reads all files of the image for that, which takes seconds, so the
   * list is requested only if a program could have changed the files.
   */
  async areUnchanged({ Id, State, HostConfig, Config }: Dockerode.ContainerInspectInfo, findings: Findings): Promise<boolean> {
    if (State.Status === 'created' || HostConfig.ReadonlyRootfs === true) return true;
    if (findings.areLinked) return false;
    if (findings.areRoots && neverBecomesRoot(Config.User, HostConfig)) return true;
    const changes = new AccountChanges();
    try {
      await eachChange(this.docker, Id, ({ Path, Kind }) => changes.add(Path, Kind));
    } catch (error) {
      if (error instanceof RuntimeRefused) return false;
      throw error;
    }
    return !changes.any;
  }

  private async checkOnce({ agentId, image, volumePath }: Checked): Promise<Findings> {
    const found = await findImage(this.docker, image);
    if (found === null) throw new RuntimeRefused('The engine no longer has the image: deploy again.');
    const volumes = declaredVolumes(found, []).map((path) => posix.normalize(path));
    // A volume that the image declares would hide what is below it. A tmpfs, which the engine does not mount before the start, replaces it.
    const hostConfig = { Tmpfs: Object.fromEntries(volumes.map((path) => [path, ''])) };
    return withUnstarted(this.docker, this.identities, { agentId, image, hostConfig }, async (container) => {
      const areLinked = await checkAccountFiles(await statsIn(container), [...volumes, volumePath]);
      return { areLinked, areRoots: !areLinked && (await areRoots(await ownersIn(container))) };
    });
  }
}

/**
 * Returns whether one of the files is a link. Throws `RuntimeRefused` if one of them is no ordinary file, or if a volume would replace them
 * (A3).
 */
export async function checkAccountFiles(stat: Stat, volumes: readonly string[]): Promise<boolean> {
  const folder = await stat(FOLDER);
  if (folder !== null && folder.kind !== 'directory')
    throw new RuntimeRefused(`The image can’t be run: its ${FOLDER} is no folder, but a ${folder.kind}.`);
  const places = [...accountFiles];
  for (const path of accountFiles) {
    const own = folder === null ? null : await stat(path);
    // The engine returns the final target of a chain of links.
    const file = own?.kind === 'link' ? await stat(posix.normalize(own.target)) : own;
    if (own?.kind === 'link') places.push(posix.normalize(own.target));
    if (file === null) continue;
    if (file.kind !== 'file') throw new RuntimeRefused(`The image can’t be run: its ${path} is no ordinary file, but a ${file.kind}.`);
    if (file.size > FILE_BYTES_MAX) throw new RuntimeRefused(`The image can’t be run: its ${path} has more than 1 MiB.`);
  }
  const resolve = resolver(stat);
  for (const volume of volumes) {
    const end = await resolve(volume);
    if (end === '/' || places.some((path) => path === end || path.startsWith(`${end}/`)))
      throw new RuntimeRefused(`The image can’t be run: the volume ${volume} would take the place of ${accountFiles.join(' and ')}.`);
  }
  return places.length > accountFiles.length;
}

/** Returns whether only root can change the files, or the folders on the way to them. */
export async function areRoots(owner: (path: string) => Promise<FileOwner | null>): Promise<boolean> {
  for (const path of ['/', FOLDER, ...accountFiles]) {
    const found = await owner(path);
    if (found !== null && (found.uid !== 0 || (found.mode & WRITABLE) !== 0)) return false;
  }
  return true;
}

/**
 * Returns whether the container's programs run as a user other than root and can't become root. The user must be given by number, since a
 * name may be another name of root; no program may give its caller more rights, and no capability those of root.
 */
export function neverBecomesRoot(user: string, { SecurityOpt, Privileged }: Dockerode.HostConfig): boolean {
  const security: string[] = SecurityOpt ?? [];
  return /^[1-9]\d*(:\d+)?$/.test(user) && Privileged !== true && security.some((option) => /^no-new-privileges(:true)?$/.test(option));
}

/** Returns a function that resolves all links of a path. */
function resolver(stat: Stat): (path: string) => Promise<string> {
  const known = new Map<string, FileStat | null>();
  return async (path) => {
    let end = '/';
    for (const part of posix.normalize(path).split('/').filter(Boolean)) {
      const next = posix.join(end, part);
      if (!known.has(next)) {
        if (known.size >= STATS_MAX) throw new RuntimeRefused('The image can’t be run: the paths of its volumes have too many parts.');
        known.set(next, await stat(next));
      }
      const found = known.get(next);
      end = found?.kind === 'link' ? posix.normalize(found.target) : next;
    }
    return end;
  };
}

/** The kinds of changes, as the engine numbers them. */
const MODIFIED = 0;

/** Decides whether the account files are among the changes of a container. */
export class AccountChanges {
  private isFileChanged = false;
  private isFolderListed = false;
  private isFolderAnother = false;
  private hasChild = false;

  add(path: string, kind: number): void {
    if (accountFiles.includes(path)) this.isFileChanged = true;
    if (path === FOLDER) {
      this.isFolderListed = true;
      this.isFolderAnother = kind !== MODIFIED;
    }
    if (path.startsWith(`${FOLDER}/`)) this.hasChild = true;
  }

  /** The value is true if the files may have changed. A folder that is listed without any child may be a link now. */
  get any(): boolean {
    return this.isFileChanged || this.isFolderAnother || (this.isFolderListed && !this.hasChild);
  }
}
