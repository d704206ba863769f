import { chmod, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { startEmbeddedPostgres } from '../../src/postgres/embedded/embedded-postgres.ts';
import { removeDataDir } from './data-dir.ts';

/** A PostgreSQL that no service started. It flushes commits to disk, unlike that of the other tests. */
export class OutsidePostgres {
  private constructor(
    private readonly dataDir: string,
    private readonly server: Awaited<ReturnType<typeof startEmbeddedPostgres>>,
  ) {}

  static async start(): Promise<OutsidePostgres> {
    const dataDir = await mkdtemp(join(tmpdir(), 'mooring-outside-'));
    // If the tests run as root, the server runs as another user, who must be able to enter the folder.
    await chmod(dataDir, 0o711);
    return new OutsidePostgres(dataDir, await startEmbeddedPostgres({ dataDir }));
  }

  get url(): string {
    return this.server.url;
  }

  async stop(): Promise<void> {
    await this.server.stop();
    await removeDataDir(this.dataDir);
  }
}
