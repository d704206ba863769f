import { constants } from 'node:fs';
import { open, rename } from 'node:fs/promises';
import { addAbortSignal, type Readable } from 'node:stream';
import { filePath } from '../../file-paths.ts';
import {
  FILE_CALL_MS_MAX,
  FILE_TRANSFER_MS_MAX,
  FileRefused,
  type AgentFiles,
  type FileList,
  type FileRead,
  type FileReadOptions,
  type FileWriteOptions,
  type MeasureBounds,
  type VolumeSize,
} from '../../files.ts';
import { limitedContent, within } from '../../limited-content.ts';
import { RuntimeRefused, type ContainerHandle } from '../../runtime.ts';
import { volumeSize } from '../folder-size.ts';
import { pathIn, pathOf, refusing } from './pinned.ts';
import { contentOf, entriesOf, packedFolder, removeTree } from './pinned-tree.ts';
import { walk, type Homes, type Place, type WalkOptions } from './walk.ts';
import { makeFolders, moveTo, writeAside } from './writing.ts';

const linkItself = { followsLast: false, confined: true };
const target = { followsLast: true, confined: true };
const anywhere = { followsLast: true, confined: false };

/** The files of agents of the local runtime: only what is in an agent's own two folders on this machine is reached. */
export class LocalFiles implements AgentFiles {
  /** `homesOf` returns the folders of a running container, and throws if it does not run. */
  constructor(private readonly homesOf: (handle: ContainerHandle) => Promise<Homes>) {}

  list(handle: ContainerHandle, path: string, signal: AbortSignal): Promise<FileList> {
    return this.at(handle, path, { ...target, signal }, async (place, homes) => {
      if (place.found === null) throw new FileRefused('not_found');
      if (!place.found.stats.isDirectory()) throw new FileRefused('not_a_directory');
      return {
        root: `/${homes.mount.join('/')}`,
        path: place.path,
        ...(await entriesOf(place.found.handle, within(FILE_CALL_MS_MAX, signal))),
      };
    });
  }

  read(handle: ContainerHandle, path: string, { range, maxBytes, signal }: FileReadOptions): Promise<FileRead> {
    return this.at(handle, path, { ...anywhere, signal }, async ({ found, path: real, name }) => {
      if (found === null) throw new FileRefused('not_found');
      const { size, mtimeMs } = found.stats;
      const facts = { path: real, mtime: Math.floor(mtimeMs / 1_000) };
      const bounded = (content: Readable) => addAbortSignal(within(FILE_TRANSFER_MS_MAX, signal), content);
      if (found.stats.isDirectory()) {
        const folder = await open(pathOf(found.handle), constants.O_RDONLY | constants.O_DIRECTORY);
        return { ...facts, kind: 'directory', size: null, content: bounded(packedFolder(folder, name ?? (real.slice(1) || 'root'))) };
      }
      if (!found.stats.isFile()) throw new FileRefused('not_a_file');
      if (maxBytes !== null && size > maxBytes) throw new FileRefused('too_large');
      const part = range?.({ size, mtime: facts.mtime }) ?? { start: 0, end: size - 1 };
      return { ...facts, kind: 'file', size, content: bounded(await contentOf(found.handle, part.start, part.end - part.start + 1)) };
    });
  }

  write(
    handle: ContainerHandle,
    path: string,
    content: Readable,
    options: FileWriteOptions,
  ): Promise<{ path: string; size: number; created: boolean }> {
    const signal = within(FILE_TRANSFER_MS_MAX, options.signal);
    return this.at(handle, path, { ...target, signal }, async (place) => {
      if (place.name === null || place.found?.stats.isDirectory() === true) throw new FileRefused('is_a_directory');
      if (place.found !== null && !place.found.stats.isFile()) throw new FileRefused('not_a_file');
      if (place.found !== null && options.onTaken === 'refuse') throw new FileRefused('exists');
      if (filePath(path).folder) throw new FileRefused('is_a_directory');
      if (place.missing.length > 0) {
        if (!options.parents) throw new FileRefused('not_found');
        await makeFolders(place.folder, [place.name, ...place.missing].slice(0, -1));
        return this.write(handle, path, content, { ...options, parents: false });
      }
      const mode = ((place.found?.stats.mode ?? 0o644) & 0o777) | (options.executable === true ? 0o111 : 0);
      const bytes = limitedContent(content, options, signal);
      const size = await writeAside(place.folder, place.name, bytes, { mode, onTaken: options.onTaken });
      return { path: place.path, size, created: place.found === null };
    }).finally(() => content.destroy());
  }

  makeDirectory(
    handle: ContainerHandle,
    path: string,
    { parents, signal }: { parents: boolean; signal: AbortSignal },
  ): Promise<{ path: string; created: boolean }> {
    return this.at(handle, path, { ...target, signal }, async (place) => {
      if (place.found !== null) {
        if (!place.found.stats.isDirectory()) throw new FileRefused('exists');
        return { path: place.path, created: false };
      }
      if (place.missing.length > 0 && !parents) throw new FileRefused('not_found');
      await makeFolders(place.folder, [place.name ?? '', ...place.missing]);
      return { path: [place.path, ...place.missing].join('/'), created: true };
    });
  }

  move(
    handle: ContainerHandle,
    from: string,
    to: string,
    signal: AbortSignal,
    onTaken: FileWriteOptions['onTaken'] = 'refuse',
  ): Promise<{ from: string; to: string }> {
    return this.at(handle, from, { ...linkItself, signal }, (source) =>
      this.at(handle, to, { ...linkItself, signal }, async (goal) => {
        if (source.name === null) throw new FileRefused('volume_root');
        if (source.found === null || goal.missing.length > 0) throw new FileRefused('not_found');
        const replaces = onTaken === 'replace' && source.found.stats.isFile() && goal.found?.stats.isFile() === true;
        if (goal.name === null || (goal.found !== null && !replaces)) throw new FileRefused('exists');
        const [old, next] = [pathIn(source.folder, source.name), pathIn(goal.folder, goal.name)];
        if (replaces) await rename(old, next);
        else await moveTo(old, next, source.found.stats.isDirectory());
        return { from: source.path, to: goal.path };
      }),
    );
  }

  remove(handle: ContainerHandle, path: string, signal: AbortSignal): Promise<{ path: string }> {
    return this.at(handle, path, { ...linkItself, signal }, async (place) => {
      if (place.name === null) throw new FileRefused('volume_root');
      if (place.found === null) throw new FileRefused('not_found');
      await removeTree(place.folder, place.name, within(FILE_CALL_MS_MAX, signal));
      return { path: place.path };
    });
  }

  async measure(handle: ContainerHandle, { withinMs }: MeasureBounds): Promise<VolumeSize | null> {
    const { volume } = await this.homesOf(handle);
    return volumeSize(volume, withinMs);
  }

  private async at<T>(
    handle: ContainerHandle,
    path: string,
    { signal, ...options }: WalkOptions & { signal: AbortSignal },
    work: (place: Place, homes: Homes) => Promise<T>,
  ): Promise<T> {
    const wanted = filePath(path);
    if (process.platform !== 'linux') throw new RuntimeRefused('The files of an agent are reached on Linux, or with a Docker Engine.');
    const homes = await this.homesOf(handle);
    return refusing(async () => {
      const place = await walk(homes, wanted, options);
      try {
        signal.throwIfAborted();
        return await work(place, homes);
      } finally {
        await place.close();
      }
    });
  }
}
