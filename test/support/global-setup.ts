import { spawn } from 'node:child_process';
import { chmod, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { startEmbeddedPostgres } from '../../src/platform/database/embedded-postgres.ts';
import { removeDataDir, shared } from './shared-postgres.ts';

/** One PostgreSQL for the whole run; each test file makes a database of its own in it (`freshDatabase`). */
export default async function globalSetup(): Promise<void> {
  const dataDir = await mkdtemp(join(tmpdir(), 'mooring-test-'));
  // As root the server runs as another user, who must be able to enter.
  await chmod(dataDir, 0o711);
  const server = await startEmbeddedPostgres({ dataDir, fast: true });
  // A run that is killed tears nothing down; this shell sees its input end then, and ends the server in its place.
  const watch = spawn('/bin/sh', ['-c', 'cat >/dev/null; kill -INT "$0"', String(server.pid)], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  watch.unref();
  shared.stop = async () => {
    watch.kill('SIGKILL');
    await server.stop();
    await removeDataDir(dataDir);
  };
  process.env.MOORING_TEST_POSTGRES = server.url;
}
