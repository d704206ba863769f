import { randomUUID } from 'node:crypto';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isMissing, readJson, removeFolder, writeJson } from '../atomic-file.ts';
import { liveness, ownMark, type ProcessMark } from '../processes.ts';

/** The folders of running builds, each with a record of the service that it belongs to. */
export class BuildFolders {
  constructor(private readonly root: string) {}

  /** Creates an empty folder. */
  async make(): Promise<string> {
    const folder = join(this.root, randomUUID());
    await mkdir(this.root, { recursive: true, mode: 0o700 });
    // The record is written first and deleted last, so that a folder always has one.
    await writeJson(`${folder}.json`, ownMark());
    await mkdir(folder, { mode: 0o700 });
    return folder;
  }

  async remove(folder: string): Promise<void> {
    await removeFolder(folder);
    await rm(`${folder}.json`, { force: true });
  }

  /** Removes the folders of services that are gone. Their processes ended with them. */
  async removeOrphans(): Promise<void> {
    for (const name of await this.names()) {
      const path = join(this.root, name);
      if (name.startsWith('.trash-')) await rm(path, { recursive: true, force: true });
      if (!name.endsWith('.json')) continue;
      const owner = await readJson<ProcessMark>(path);
      if (owner !== null && liveness(owner) === 'gone') await this.remove(path.slice(0, -'.json'.length));
    }
  }

  private async names(): Promise<string[]> {
    try {
      return await readdir(this.root);
    } catch (error) {
      if (isMissing(error)) return [];
      throw error;
    }
  }
}
