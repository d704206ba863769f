import { spawn } from 'node:child_process';
import { chmod, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { startEmbeddedPostgres } from '../../src/postgres/embedded/embedded-postgres.ts';
import { removeDataDir } from '../support/data-dir.ts';
import { FakeEventStoreDb } from '../support/eventstoredb/fake-eventstoredb.ts';
import { makeTemplateDatabase } from '../support/postgres.ts';
import { shared } from './shared-servers.mjs';

/** A shell script that cleans up after a killed run, which tears nothing down: its input ends when the run ends. */
const afterKill = `cat >/dev/null; kill -INT "$0"; tries=0
  while kill -0 "$0" 2>/dev/null && [ $tries -lt 100 ]; do tries=$((tries + 1)); sleep 0.1; done
  rm -rf "$1"`;

/**
 * Starts one PostgreSQL for the whole run, in which each test file makes its own database (`freshDatabase`), and one stand-in for an
 * EventStoreDB, in which each file has its own prefix (`eventStoreEnvironment`).
 */
export default async function globalSetup() {
  const dataDir = await mkdtemp(join(tmpdir(), 'mooring-test-'));
  // If the tests run as root, the server runs as another user, who must be able to enter the folder.
  await chmod(dataDir, 0o711);
  const server = await startEmbeddedPostgres({ dataDir, fast: true });
  const watch = spawn('/bin/sh', ['-c', afterKill, String(server.pid), dataDir], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  watch.unref();
  const standIn = await FakeEventStoreDb.start();
  shared.stop = async () => {
    await standIn.stop();
    watch.kill('SIGKILL');
    await server.stop();
    await removeDataDir(dataDir);
  };
  process.env.MOORING_TEST_POSTGRES = server.url;
  await makeTemplateDatabase();
  process.env.MOORING_TEST_EVENTSTORE = standIn.url;
}
