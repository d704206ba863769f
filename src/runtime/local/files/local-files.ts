import { mkdir, rename, rm } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { addAbortSignal, type Readable } from 'node:stream';
import { raceAbort } from '../../../kernel/async/race-abort.ts';
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
import type { ContainerHandle } from '../../container.ts';
import { volumeSize } from '../folder-size.ts';
import { refusing } from './file-errors.ts';
import { contentOf, entriesOf, openFile, packedFolder } from './folders.ts';
import { locate, type ContainerRoots, type LocateOptions, type LocatedPath } from './real-path.ts';
import { moveTo, writeAside } from './whole-files.ts';

const linkItself = { followsLast: false, confined: true };
const target = { followsLast: true, confined: true };
const anywhere = { followsLast: true, confined: false };

/** The files of agents of the local runtime, confined to an agent's two folders on this machine. */
export class LocalFiles implements AgentFiles {
  /** `homesOf` returns the folders of a running container, and throws if it does not run. */
  constructor(private readonly homesOf: (handle: ContainerHandle) => Promise<ContainerRoots>) {}

  list(handle: ContainerHandle, path: string, signal: AbortSignal): Promise<FileList> {
    return this.at(handle, path, { ...target, signal }, async (place, homes) => {
      if (place.stats === null) throw new FileRefused('not_found');
      if (!place.stats.isDirectory()) throw new FileRefused('not_a_directory');
      return {
        root: `/${homes.mount.join('/')}`,
        path: place.path,
        ...(await entriesOf(place.real, within(FILE_CALL_MS_MAX, signal))),
      };
    });
  }

  read(handle: ContainerHandle, path: string, { range, maxBytes, signal }: FileReadOptions): Promise<FileRead> {
    return this.at(handle, path, { ...anywhere, signal }, async (place) => {
      if (place.stats === null) throw new FileRefused('not_found');
      const { size, mtimeMs } = place.stats;
      const facts = { path: place.path, mtime: Math.floor(mtimeMs / 1_000) };
      const bounded = (content: Readable) => addAbortSignal(within(FILE_TRANSFER_MS_MAX, signal), content);
      if (place.stats.isDirectory()) {
        const content = packedFolder(place.real, basename(place.path) || 'root');
        return { ...facts, kind: 'directory', size: null, content: bounded(content) };
      }
      if (!place.stats.isFile()) throw new FileRefused('not_a_file');
      if (maxBytes !== null && size > maxBytes) throw new FileRefused('too_large');
      const { start, end } = range?.({ size, mtime: facts.mtime }) ?? { start: 0, end: size - 1 };
      return { ...facts, kind: 'file', size, content: bounded(contentOf(await openFile(place.real), start, end - start + 1)) };
    });
  }

  write(
    handle: ContainerHandle,
    path: string,
    content: Readable,
    options: FileWriteOptions,
  ): Promise<{ path: string; size: number; created: boolean }> {
    const signal = within(FILE_TRANSFER_MS_MAX, options.signal);
    return this.at(handle, path, { ...target, signal }, async ({ real, stats, isRoot, lacksFolder, path: found }) => {
      if (isRoot || stats?.isDirectory() === true) throw new FileRefused('is_a_directory');
      if (stats !== null && !stats.isFile()) throw new FileRefused('not_a_file');
      if (stats !== null && options.onTaken === 'refuse') throw new FileRefused('exists');
      if (filePath(path).folder) throw new FileRefused('is_a_directory');
      if (lacksFolder && !options.parents) throw new FileRefused('not_found');
      if (lacksFolder) await makeFolders(dirname(real));
      const mode = ((stats?.mode ?? 0o644) & 0o777) | (options.executable === true ? 0o111 : 0);
      const size = await writeAside(real, limitedContent(content, options, signal), { mode, onTaken: options.onTaken });
      return { path: found, size, created: stats === null };
    }).finally(() => content.destroy());
  }

  makeDirectory(
    handle: ContainerHandle,
    path: string,
    { parents, signal }: { parents: boolean; signal: AbortSignal },
  ): Promise<{ path: string; created: boolean }> {
    return this.at(handle, path, { ...target, signal }, async (place) => {
      const { stats } = place;
      if (stats !== null && !stats.isDirectory()) throw new FileRefused('exists');
      if (place.lacksFolder && !parents) throw new FileRefused('not_found');
      if (stats === null) await makeFolders(place.real);
      return { path: place.path, created: stats === null };
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
        if (source.isRoot) throw new FileRefused('volume_root');
        if (source.stats === null) throw new FileRefused('not_found');
        const replaces = onTaken === 'replace' && source.stats.isFile() && goal.stats?.isFile() === true;
        if (goal.isRoot || (goal.stats !== null && !replaces)) throw new FileRefused('exists');
        if (goal.real.startsWith(`${source.real}/`)) throw new FileRefused('invalid_path');
        if (goal.lacksFolder) await makeFolders(dirname(goal.real));
        if (replaces) await rename(source.real, goal.real);
        else await moveTo(source, goal.real);
        return { from: source.path, to: goal.path };
      }),
    );
  }

  /** Removes the file or the folder. A removal that has begun completes, even if its caller leaves. */
  remove(handle: ContainerHandle, path: string, signal: AbortSignal): Promise<{ path: string }> {
    return this.at(handle, path, { ...linkItself, signal }, async (place) => {
      if (place.isRoot) throw new FileRefused('volume_root');
      if (place.stats === null) throw new FileRefused('not_found');
      await raceAbort(rm(place.real, { recursive: true, maxRetries: 3 }), within(FILE_CALL_MS_MAX, signal));
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
    { signal, ...options }: LocateOptions & { signal: AbortSignal },
    work: (place: LocatedPath, homes: ContainerRoots) => Promise<T>,
  ): Promise<T> {
    const wanted = filePath(path);
    const homes = await this.homesOf(handle);
    return refusing(async () => {
      const place = await locate(homes, wanted, options);
      signal.throwIfAborted();
      return work(place, homes);
    });
  }
}

async function makeFolders(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o755 });
}
