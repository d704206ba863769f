import { readdir, rm, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';

import type { ImageStore, StoredImage, StoredImages } from '../image-store.ts';
import { ImageGone, type ResolvedImage } from '../runtime.ts';
import { exists, isMissing, removeFolder } from './atomic-file.ts';
import { folderSize } from './folder-size.ts';

/** The longest time for which sizes are measured at a time, in milliseconds. */
const MEASURE_MS = 10_000;

/** The images of the local runtime: folders that are named by the hash of their content. Containers have copies of them. */
export class LocalImages implements ImageStore {
  /** The sizes that are known, in bytes, by folder. The content of an image never changes. */
  private sizes = new Map<string, number>();

  constructor(private readonly folder: string) {}

  has(image: string): Promise<boolean> {
    return exists(join(this.folder, basename(image)));
  }

  /** Returns the image of an earlier deployment, whose folder is kept. Throws `ImageGone` if it is gone. */
  async earlier(earlier: ResolvedImage, log: (line: string) => void): Promise<ResolvedImage> {
    if (!(await this.has(earlier.image))) throw new ImageGone(earlier);
    log(`Using ${earlier.name} as it was deployed before.`);
    return earlier;
  }

  async list(): Promise<StoredImages> {
    const end = performance.now() + MEASURE_MS;
    const names = (await readdir(this.folder)).filter((name) => !name.startsWith('.'));
    const found = await Promise.all(names.map((name) => this.stored(name, end)));
    const own = found.filter((image) => image !== null);
    this.sizes = new Map([...this.sizes].filter(([name]) => names.includes(name)));
    return { own, all: { count: own.length, bytes: own.reduce((sum, { bytes }) => sum + bytes, 0) } };
  }

  async remove(id: string): Promise<boolean> {
    await this.removeTrash();
    await removeFolder(join(this.folder, basename(id)));
    return true;
  }

  private async stored(name: string, end: number): Promise<StoredImage | null> {
    try {
      await stat(join(this.folder, name));
      const bytes = this.sizes.get(name) ?? (await folderSize(join(this.folder, name), end - performance.now()));
      if (bytes !== null) this.sizes.set(name, bytes);
      return { id: name, pins: [name], names: [], bytes: bytes ?? 0, builtOnAt: null, isBase: false };
    } catch (error) {
      if (isMissing(error)) return null;
      throw error;
    }
  }

  /** Removes what a process that died in the middle of a removal has left. */
  private async removeTrash(): Promise<void> {
    for (const name of await readdir(this.folder))
      if (name.startsWith('.trash-')) await rm(join(this.folder, name), { recursive: true, force: true });
  }
}
