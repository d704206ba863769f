import { readdir, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';

import type { ImageStore, StoredImage, StoredImages } from '../image-store.ts';
import type { ResolvedImage } from '../image-source.ts';
import { ImageGone } from '../runtime.errors.ts';
import { exists, isMissing, removeFolder, removeTrash } from './atomic-file.ts';
import { folderSize, sizeTogether } from './folder-size.ts';
import type { PackageStore } from './projects/package-store.ts';

/** The longest time for one measurement of sizes, in ms. */
const MEASURE_MS = 10_000;
/** The prefix of the ids of stored packages, which no name of an image has. */
const PACKAGES = 'packages/';

/**
 * The images of the local runtime: folders that are named by the hash of their content. Containers have copies of them. The stored packages
 * that later builds continue from are listed with them.
 */
export class LocalImages implements ImageStore {
  /** The known sizes in bytes, by id. Stored content never changes. */
  private sizes = new Map<string, number>();
  /** The total size of the content stored under these ids, in bytes. */
  private together: { ids: string; bytes: number } | null = null;

  constructor(
    private readonly folder: string,
    private readonly packages: PackageStore,
  ) {}

  has(image: string): Promise<boolean> {
    return exists(join(this.folder, basename(image)));
  }

  /** Returns the image of an earlier deployment, if its folder still exists. Throws `ImageGone` if not. */
  async earlier(earlier: ResolvedImage, log: (line: string) => void): Promise<ResolvedImage> {
    if (!(await this.has(earlier.image))) throw new ImageGone(earlier.image, earlier.name);
    log(`Using ${earlier.name} as it was deployed before.`);
    return earlier;
  }

  async list(): Promise<StoredImages> {
    const end = performance.now() + MEASURE_MS;
    const names = (await readdir(this.folder)).filter((name) => !name.startsWith('.'));
    const images = await Promise.all(names.map((name) => this.image(name, end)));
    const packages = await Promise.all((await this.packages.list()).map((kept) => this.installation(kept, end)));
    const own = [...images, ...packages].filter((stored) => stored !== null);
    const ids = own.map(({ id }) => id);
    this.sizes = new Map([...this.sizes].filter(([id]) => ids.includes(id)));
    const bytes = await this.bytesTogether(own, end);
    return { own, ownBytes: bytes, all: { count: own.length, bytes } };
  }

  async remove(id: string): Promise<boolean> {
    if (id.startsWith(PACKAGES)) return this.packages.remove(id.slice(PACKAGES.length));
    await removeTrash(this.folder);
    await removeFolder(join(this.folder, basename(id)));
    return true;
  }

  private async image(name: string, end: number): Promise<StoredImage | null> {
    try {
      const folder = join(this.folder, name);
      await stat(folder);
      return { id: name, digests: [name], names: [], bytes: await this.bytesOf(name, folder, end), builtOnAt: null, isBase: false };
    } catch (error) {
      if (isMissing(error)) return null;
      throw error;
    }
  }

  private async installation({ key, usedAt }: { key: string; usedAt: Date }, end: number): Promise<StoredImage> {
    const id = `${PACKAGES}${key}`;
    return {
      id,
      digests: [],
      names: [],
      bytes: await this.bytesOf(id, join(this.packages.root, key), end),
      builtOnAt: usedAt,
      isBase: false,
    };
  }

  private async bytesOf(id: string, folder: string, end: number): Promise<number> {
    const bytes = this.sizes.get(id) ?? (await folderSize(folder, end - performance.now()));
    if (bytes !== null) this.sizes.set(id, bytes);
    return bytes ?? 0;
  }

  /** Returns the total size, in which a file that several images share counts once. If that takes too long, it counts in each. */
  private async bytesTogether(own: readonly StoredImage[], end: number): Promise<number> {
    const ids = own
      .map(({ id }) => id)
      .toSorted()
      .join('\n');
    if (this.together?.ids !== ids) {
      const bytes = await sizeTogether([this.folder, this.packages.root], end - performance.now());
      this.together = bytes === null ? null : { ids, bytes };
    }
    return this.together?.bytes ?? own.reduce((sum, { bytes }) => sum + bytes, 0);
  }
}
