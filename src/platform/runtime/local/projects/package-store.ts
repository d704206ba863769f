import { randomUUID } from 'node:crypto';
import { mkdir, readdir, rename, stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { exists, isMissing, removeFolder } from '../atomic-file.ts';
import { copyImage } from '../copy-tree.ts';
import { readImageRecord, writeImageRecord } from '../image-record.ts';
import { moveVirtualEnvironment } from './virtual-environment.ts';

/** The number of installations that are kept. Beyond it, those that were used last longest ago are removed. */
const KEPT_MAX = 20;
/** The age after its last use at which no build copies an installation any more, in milliseconds. */
const UNUSED_MS = 60 * 60_000;

/** Keeps the packages that earlier builds installed, by a hash of all that the installation read. Files of packages are shared with the images by hard links. */
export class PackageStore {
  constructor(private readonly root: string) {}

  /** Copies the installation into the project's folder. Returns false if there is none. */
  async take(key: string, project: string): Promise<boolean> {
    const folder = join(this.root, key);
    const made = await readImageRecord(folder);
    if (made === null) return false;
    await utimes(folder, new Date(), new Date());
    await copyImage(join(folder, 'files'), project);
    await moveVirtualEnvironment(project, made.builtIn ?? '', project);
    return true;
  }

  /** Keeps what was installed in the project's folder. `build` is the folder of the build, which a killed service leaves behind. */
  async keep(key: string, project: string, build: string): Promise<void> {
    const temporary = join(build, randomUUID());
    await copyImage(project, join(temporary, 'files'));
    await writeImageRecord(temporary, { start: [], builtIn: project });
    await mkdir(this.root, { recursive: true, mode: 0o700 });
    await rename(temporary, join(this.root, key)).catch(async (error: unknown) => {
      // A concurrent build kept the same.
      if (!(await exists(join(this.root, key)))) throw error;
    });
    await this.trim();
  }

  private async trim(): Promise<void> {
    const folders = (await readdir(this.root)).filter((name) => !name.startsWith('.')).map((name) => join(this.root, name));
    const used = await Promise.all(folders.map(async (folder) => ({ folder, at: await usedAt(folder) })));
    const surplus = used.toSorted((a, b) => b.at - a.at).slice(KEPT_MAX);
    for (const { folder, at } of surplus) if (Date.now() - at > UNUSED_MS) await removeFolder(folder);
  }
}

/** Returns the time in milliseconds since 1970; 0 if another call has removed the folder. */
async function usedAt(folder: string): Promise<number> {
  try {
    return (await stat(folder)).mtimeMs;
  } catch (error) {
    if (isMissing(error)) return 0;
    throw error;
  }
}
