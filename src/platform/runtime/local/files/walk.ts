import type { Stats } from 'node:fs';
import { readlink, type FileHandle } from 'node:fs/promises';
import { contains, filePath, type FilePath } from '../../file-paths.ts';
import { FileRefused } from '../../files.ts';
import { pathIn, pathOf, pin, unless } from './pinned.ts';

const LINKS_MAX = 40;
/** The files and folders that one walk opens at most. */
const OPENED_MAX = 10_000;

/** The two folders of the host that an agent of the local runtime sees as its own. */
export interface Homes {
  /** The names of the volume's mount point. */
  mount: readonly string[];
  /** The host's folder of the volume. */
  volume: string;
  /** The host's folder of everything else. */
  root: string;
}

/** The end of a walk. `close` closes all its handles. */
export interface Place {
  /** The path of the folder that holds the name. */
  above: readonly string[];
  folder: FileHandle;
  /** The name in the folder; null for the volume's root and for `/`, for which `folder` and `found` are the same. */
  name: string | null;
  /** The value is null if there is nothing of that name. */
  found: { handle: FileHandle; stats: Stats } | null;
  /** The names below `name` that were not reached, because `name` does not exist. */
  missing: readonly string[];
  /** The path, without links. */
  path: string;
  close(): Promise<void>;
}

export interface WalkOptions {
  /** The value is true if a link that is the last component is followed, too. */
  followsLast: boolean;
  /** The value is true if the path has to be inside the volume. */
  confined: boolean;
}

/**
 * Walks a path of an agent name by name, as the agent sees it: its volume at the mount point, and its other files around it. Every name is
 * opened in the folder that is held, links are read and followed by this walk itself, and `..` is never handed to the kernel. So whatever the
 * agent swaps meanwhile, the walk stays in the two folders. Throws `FileRefused` and errors of the file system.
 */
export async function walk(homes: Homes, path: FilePath, options: WalkOptions): Promise<Place> {
  return new Walk(homes).to(path, options);
}

class Walk {
  private at: readonly string[] = [];
  private folder: FileHandle;
  private readonly held = new Set<FileHandle>();
  private opened = 0;

  constructor(private readonly homes: Homes) {}

  async to(path: FilePath, { followsLast, confined }: WalkOptions): Promise<Place> {
    try {
      const place = await this.walked(path, followsLast);
      if (confined && !contains(this.homes.mount, [...place.above, place.name ?? ''])) throw new FileRefused('outside_volume');
      // The agent may have moved a folder out of its volume while it was held.
      await this.refuseMoved();
      return place;
    } catch (error) {
      await this.close();
      // A caller does not learn what exists outside.
      if (confined && !contains(this.homes.mount, this.at)) throw new FileRefused('outside_volume', { cause: error });
      throw error;
    }
  }

  private async walked(path: FilePath, followsLast: boolean): Promise<Place> {
    let pending = await this.begin(path);
    let links = 0;
    for (;;) {
      const [name, ...rest] = pending;
      if (name === undefined) return this.arrived();
      pending = rest;
      if (name === '..') await this.enter(this.at.slice(0, -1));
      else if (this.isMount([...this.at, name])) await this.enter([...this.at, name]);
      else {
        const isLast = pending.length === 0;
        const found = await this.look(name);
        if (found === null) return this.place(name, null, pending);
        if (found.stats.isSymbolicLink() && (!isLast || followsLast)) {
          if (++links > LINKS_MAX) throw new FileRefused('not_found');
          const target = await unless(['EINVAL', 'ENOENT'], readlink(pathIn(this.folder, name)));
          await this.release(found.handle);
          if (target === null) throw new FileRefused('not_found');
          pending = await this.follow(target, pending);
        } else if (isLast) return this.place(name, found, []);
        else if (found.stats.isDirectory()) await this.step(name, found.handle);
        else throw new FileRefused('not_a_directory');
      }
    }
  }

  /** Returns the names to walk from the folder in which the path begins. The agent itself knows its volume by the host's path, too. */
  private async begin(path: FilePath): Promise<readonly string[]> {
    if (!path.absolute) {
      await this.enter(this.homes.mount);
      return path.parts;
    }
    const { mount, volume, root } = this.homes;
    for (const [host, inside] of [
      [filePath(volume).parts, mount],
      [mount, mount],
      [filePath(root).parts, []],
    ] as const)
      if (contains(host, path.parts)) {
        await this.enter(inside);
        return path.parts.slice(host.length);
      }
    await this.enter([]);
    return path.parts;
  }

  private async follow(target: string, rest: readonly string[]): Promise<readonly string[]> {
    const link = filePath(target);
    return [...(link.absolute ? await this.begin(link) : link.parts), ...rest];
  }

  /** Enters a folder from its home, through no link. */
  private async enter(path: readonly string[]): Promise<void> {
    const inVolume = contains(this.homes.mount, path);
    let folder = await this.hold(inVolume ? this.homes.volume : this.homes.root);
    for (const name of inVolume ? path.slice(this.homes.mount.length) : path) {
      const next = await this.hold(pathIn(folder, name));
      await this.release(folder);
      folder = next;
      if (!(await folder.stat()).isDirectory()) throw new FileRefused('not_found');
    }
    if (this.folder !== undefined) await this.release(this.folder);
    this.folder = folder;
    this.at = path;
  }

  private async step(name: string, handle: FileHandle): Promise<void> {
    await this.release(this.folder);
    this.folder = handle;
    this.at = [...this.at, name];
  }

  private async look(name: string): Promise<Place['found']> {
    const handle = await unless(['ENOENT'], this.hold(pathIn(this.folder, name)));
    return handle === null ? null : { handle, stats: await handle.stat() };
  }

  /** The path ended in a folder that was entered: its root, or by `..`. */
  private async arrived(): Promise<Place> {
    const name = this.at.at(-1);
    if (name === undefined || this.isMount(this.at)) {
      const found = { handle: this.folder, stats: await this.folder.stat() };
      return { ...this.place('', found, []), name: null, path: `/${this.at.join('/')}` };
    }
    await this.enter(this.at.slice(0, -1));
    return this.place(name, await this.look(name), []);
  }

  private place(name: string, found: Place['found'], missing: readonly string[]): Place {
    return {
      above: this.at,
      folder: this.folder,
      name,
      found,
      missing,
      path: `/${[...this.at, name].join('/')}`,
      close: () => this.close(),
    };
  }

  private async refuseMoved(): Promise<void> {
    const home = await pin(contains(this.homes.mount, this.at) ? this.homes.volume : this.homes.root);
    try {
      const [outer, inner] = await Promise.all([home, this.folder].map((handle) => readlink(pathOf(handle))));
      if (inner !== outer && !inner?.startsWith(`${outer}/`)) throw new FileRefused('outside_volume');
    } finally {
      await home.close();
    }
  }

  private isMount(path: readonly string[]): boolean {
    return path.length === this.homes.mount.length && contains(this.homes.mount, path);
  }

  private async hold(path: string): Promise<FileHandle> {
    if (++this.opened > OPENED_MAX) throw new FileRefused('invalid_path');
    const handle = await pin(path);
    this.held.add(handle);
    return handle;
  }

  private async release(handle: FileHandle): Promise<void> {
    this.held.delete(handle);
    await handle.close();
  }

  private async close(): Promise<void> {
    const held = [...this.held];
    this.held.clear();
    await Promise.all(held.map((handle) => handle.close()));
  }
}
