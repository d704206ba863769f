import { randomUUID } from 'node:crypto';
import { mkdir, readdir, rename, stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { exists, isMissing, removeFolder, removeTrash } from '../atomic-file.ts';
import { copyImage } from '../copy-tree.ts';
import { readImageRecord, writeImageRecord } from '../image-record.ts';
import { moveVirtualEnvironment } from './virtual-environment.ts';

/** The number of stored installations. Above it, the least recently used ones are removed. */
const KEPT_MAX = 20;
/** The time after its last use from which no build still copies an installation, in ms. */
const UNUSED_MS = 60 * 60_000;

/**
 * Stores the packages that earlier builds installed, by a hash of everything that the installation read. Package files are shared with the
 * images by hard links.
 */
export class PackageStore {
  constructor(readonly root: string) {}

  /** Copies the installation into the project's folder. Returns false if there is none. */
  async copyInto(key: string, project: string): Promise<boolean> {
    const folder = join(this.root, key);
    const made = await readImageRecord(folder);
    if (made === null) return false;
    await utimes(folder, new Date(), new Date());
    await copyImage(join(folder, 'files'), project);
    await moveVirtualEnvironment(project, made.builtIn ?? '', project);
    return true;
  }

  /** Stores the packages installed in the project's folder. `build` is the folder of the build, which a killed service leaves behind. */
  async keep(key: string, project: string, build: string): Promise<void> {
    const temporary = join(build, randomUUID());
    await copyImage(project, join(temporary, 'files'));
    await writeImageRecord(temporary, { start: [], builtIn: project });
    await mkdir(this.root, { recursive: true, mode: 0o700 });
    await rename(temporary, join(this.root, key)).catch(async (error: unknown) => {
      // A concurrent build stored the same packages.
      if (!(await exists(join(this.root, key)))) throw error;
    });
    await this.trim();
  }

  /** Lists the installations with the time of their last use. */
  async list(): Promise<{ key: string; usedAt: Date }[]> {
    const keys = (await unlessMissing(readdir(this.root), [])).filter((name) => !name.startsWith('.'));
    const found = await Promise.all(keys.map(async (key) => ({ key, usedAt: await this.usedAt(key) })));
    return found.filter((kept): kept is { key: string; usedAt: Date } => kept.usedAt !== null);
  }

  /** Removes the installation. Returns false if a build may still be copying it. It may be repeated after a crash. */
  async remove(key: string): Promise<boolean> {
    await removeTrash(this.root);
    const usedAt = await this.usedAt(key);
    if (usedAt !== null && Date.now() - usedAt.getTime() <= UNUSED_MS) return false;
    await removeFolder(join(this.root, key));
    return true;
  }

  private async trim(): Promise<void> {
    const kept = await this.list();
    const surplus = kept.toSorted((a, b) => b.usedAt.getTime() - a.usedAt.getTime()).slice(KEPT_MAX);
    for (const { key } of surplus) await this.remove(key);
  }

  /** Returns the time of the last use, or null if another call has removed the installation. */
  private async usedAt(key: string): Promise<Date | null> {
    const facts = await unlessMissing(stat(join(this.root, key)), null);
    return facts?.mtime ?? null;
  }
}

async function unlessMissing<T, U>(asked: Promise<T>, otherwise: U): Promise<T | U> {
  try {
    return await asked;
  } catch (error) {
    if (isMissing(error)) return otherwise;
    throw error;
  }
}
