/**
 * The PostgreSQL that comes with the npm packages, on a data directory.
 *
 * Owns: the cluster in the data directory, its password, and the start or adoption of its server. Does not own the running server
 * afterwards (`RunningPostgres`) or the claim of the directory (`claimDataDir`).
 *
 * S1  One process uses a data directory at a time.
 * S2  A server that a killed process left running is adopted, or stopped first if it does not force writes to disk and the data must last.
 * S3  The server listens on the loopback address only, and its settings come from the command line, so no file can override them.
 * S4  No secret of the service's environment reaches the server or its tools; the password is in a file with mode 0600, written as a whole.
 * S5  A server that ends by itself is started again on the same port.
 */
import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  fstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { Client } from 'pg';

import { claimDataDir } from './postgres-owner.ts';
import { findBinaries, placeNewCluster, serverUser, type ServerUser } from './postgres-place.ts';
import { endPostgres, isAlive, isPostgresOn, killOrphans, readPostmaster, waitUntil } from './postgres-process.ts';
import { RunningPostgres, type EmbeddedPostgresLogger } from './running-postgres.ts';

export type { RunningPostgres as EmbeddedPostgres } from './running-postgres.ts';

export interface EmbeddedPostgresOptions {
  dataDir: string;
  logger?: EmbeddedPostgresLogger;
  /** The value is true if writes need not be forced to disk, so that a power cut may lose data; for tests only. */
  fast?: boolean;
  /** Called if a server that ended by itself could not be started again; by default, a warning is logged. */
  onLost?: (error: Error) => void;
}

interface Setup {
  dataDir: string;
  cluster: string;
  binaries: string;
  user: ServerUser | undefined;
  password: string;
  fast: boolean;
  logger: EmbeddedPostgresLogger | undefined;
}

const START_TIMEOUT_MS = 30_000;
const START_ATTEMPTS_MAX = 10;
/** Matches errors that a retry with another port can fix. */
const portIsTaken = /Address already in use|could not create any TCP\/IP sockets/;
/** Matches the error of a server whose predecessor was killed and left processes behind. */
const hasOrphans = /pre-existing shared memory block/;

/** Starts the server of a data directory, or adopts the one that a killed process left running there. See S1 to S5. */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<RunningPostgres> {
  // Other users may only traverse the directory: the server's user has its folder in it, and the mode of our files denies access to others.
  mkdirSync(options.dataDir, { recursive: true, mode: 0o711 });
  const giveBack = await claimDataDir(options.dataDir, (owner, withinMs) =>
    options.logger?.warn({ owner }, `process ${owner} still uses the data directory; waiting up to ${withinMs / 1_000} s for its end`),
  );
  try {
    const setup = await prepare(options);
    const { pid, port } = (await adopt(setup)) ?? (await launch(setup));
    await ensureDatabase(setup, port);
    const { cluster, password, logger } = setup;
    const onLost = options.onLost ?? ((error: Error) => logger?.warn({}, error.message));
    const launchAgain = async () => (await launch(setup, port)).pid;
    const url = `postgres://mooring:${password}@127.0.0.1:${port}/mooring`;
    return new RunningPostgres(url, pid, { cluster, logger, launchAgain, releaseDataDir: giveBack, onLost });
  } catch (error) {
    giveBack();
    throw error;
  }
}

async function prepare({ dataDir, logger, fast = false }: EmbeddedPostgresOptions): Promise<Setup> {
  const user = serverUser(dataDir);
  const binaries = await findBinaries(user);
  const named = join(dataDir, 'postgres');
  const password = readPassword(join(dataDir, 'postgres.password'), existsSync(named));
  if (!existsSync(named)) {
    await placeNewCluster(dataDir, user, (folder) => initialise({ binaries, user, password, fast }, folder));
    logger?.info({ place: realpathSync(named) }, 'database set up');
  }
  const cluster = realpathSync(named);
  await checkVersion(cluster, binaries);
  return { dataDir, cluster, binaries, user, password, fast, logger };
}

function readPassword(file: string, hasData: boolean): string {
  if (existsSync(file)) return readFileSync(file, 'utf8').trim();
  if (hasData) throw new Error(`the password of the embedded database is missing: ${file}`);
  const password = randomBytes(24).toString('hex');
  // S4: The file is renamed once it is complete: with half a password, the database could never be opened again.
  writeFileSync(`${file}.new`, `${password}\n`, { mode: 0o600 });
  renameSync(`${file}.new`, file);
  return password;
}

async function initialise(
  { binaries, user, password, fast }: Pick<Setup, 'binaries' | 'user' | 'password' | 'fast'>,
  folder: string,
): Promise<void> {
  const passwordFile = `${folder}.password`;
  writeFileSync(passwordFile, password, { mode: 0o600 });
  if (user) chownSync(passwordFile, user.uid, user.gid);
  const how = ['--username=mooring', '--auth=scram-sha-256', `--pwfile=${passwordFile}`, '--encoding=UTF8'];
  // The built-in provider sorts in the same way on every system.
  const locale = ['--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--locale=C'];
  try {
    const args = ['-D', folder, ...how, ...locale, ...(fast ? ['--no-sync'] : [])];
    await promisify(execFile)(join(binaries, 'initdb'), args, {
      ...user,
      cwd: folder,
      env: environment(),
    });
  } finally {
    rmSync(passwordFile, { force: true });
  }
}

/** S4: Returns only the variables that the programs need. */
function environment(): NodeJS.ProcessEnv {
  return { PATH: process.env.PATH, SystemRoot: process.env.SystemRoot, LC_ALL: 'C' };
}

async function checkVersion(cluster: string, binaries: string): Promise<void> {
  const { stdout } = await promisify(execFile)(join(binaries, 'postgres'), ['--version'], {
    env: environment(),
  });
  const shipped = /\b(\d+)\./.exec(stdout)?.[1];
  const made = readFileSync(join(cluster, 'PG_VERSION'), 'utf8').trim();
  if (shipped !== made)
    throw new Error(
      `the database in ${cluster} was created by PostgreSQL ${made}, and this Mooring includes ${shipped}: dump it with the old version and restore it`,
    );
}

/** S2: Adopts a server that a killed process left running. Returns undefined if there is none to adopt. */
async function adopt({ cluster, fast, password, logger }: Setup): Promise<{ pid: number; port: number } | undefined> {
  const left = readPostmaster(cluster);
  if (!left) return undefined;
  if (!isPostgresOn(cluster, left.pid)) {
    // The process id belongs to another process now, for whose end PostgreSQL would wait.
    if (isAlive(left.pid)) rmSync(join(cluster, 'postmaster.pid'), { force: true });
    return undefined;
  }
  const ready = await waitUntil(() => readPostmaster(cluster)?.ready === true || !isPostgresOn(cluster, left.pid), START_TIMEOUT_MS);
  const port = readPostmaster(cluster)?.port;
  if (ready && port && (fast || (await isDurable(password, port)))) {
    logger?.info({ pid: left.pid, port }, 'adopted the database server of an ended process');
    return { pid: left.pid, port };
  }
  logger?.warn({ pid: left.pid }, 'stopping the database server of an ended process');
  await endPostgres(cluster, left.pid);
  return undefined;
}

async function isDurable(password: string, port: number): Promise<boolean> {
  try {
    const rows = await query(
      password,
      port,
      `SELECT bool_and(setting = 'on') AS safe FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit')`,
    );
    return rows[0]?.safe === true;
  } catch {
    return false;
  }
}

async function launch(setup: Setup, known?: number): Promise<{ pid: number; port: number }> {
  let said = '';
  for (let attempt = 0; attempt < START_ATTEMPTS_MAX; attempt++) {
    const port = known ?? (await freePort());
    const { pid, logFrom } = await spawnServer(setup, port);
    const settled = await waitUntil(() => isReady(setup.cluster, pid) || !isAlive(pid), START_TIMEOUT_MS);
    if (isReady(setup.cluster, pid)) return { pid, port };
    if (!settled) await endPostgres(setup.cluster, pid);
    said = readFileSync(logFile(setup)).subarray(logFrom).toString();
    if (hasOrphans.test(said)) killOrphans(setup.cluster);
    else if (!portIsTaken.test(said)) break;
  }
  throw new Error(`the embedded PostgreSQL failed to start:\n${said}`);
}

function isReady(cluster: string, pid: number): boolean {
  const found = readPostmaster(cluster);
  return found?.pid === pid && found.ready;
}

/**
 * Starts the server in a process group of its own, so that Ctrl-C reaches only Mooring and the database stays up until everything is
 * closed.
 */
async function spawnServer(setup: Setup, port: number): Promise<{ pid: number; logFrom: number }> {
  const log = openLog(logFile(setup));
  const logFrom = fstatSync(log).size;
  try {
    const child = spawn(join(setup.binaries, 'postgres'), ['-D', setup.cluster, ...settings(port, setup.fast)], {
      ...setup.user,
      cwd: setup.cluster,
      detached: true,
      stdio: ['ignore', log, log],
      env: environment(),
    });
    await new Promise<void>((resolve, reject) => child.once('spawn', resolve).once('error', reject));
    child.unref();
    return { pid: child.pid as number, logFrom };
  } finally {
    closeSync(log);
  }
}

/** S3: Returns the settings as command-line arguments, so that no settings file in the data directory can override them. */
function settings(port: number, fast: boolean): string[] {
  const lasting = fast ? 'off' : 'on';
  const values = {
    listen_addresses: '127.0.0.1',
    port,
    unix_socket_directories: '',
    max_connections: 100,
    shared_buffers: '128MB',
    wal_level: 'replica',
    fsync: lasting,
    synchronous_commit: lasting,
    full_page_writes: lasting,
    // Errors are returned to the caller; in the log they would reveal values of statements.
    log_min_messages: 'log',
    log_min_error_statement: 'panic',
    log_checkpoints: 'off',
  };
  return Object.entries(values).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
}

function logFile({ dataDir }: Setup): string {
  return join(dataDir, 'postgres.log');
}

function openLog(file: string): number {
  if (existsSync(file) && statSync(file).size > 5_000_000) renameSync(file, `${file}.1`);
  const log = openSync(file, 'a', 0o600);
  chmodSync(file, 0o600);
  return log;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function ensureDatabase({ password }: Setup, port: number): Promise<void> {
  const found = await query(password, port, `SELECT 1 FROM pg_database WHERE datname = 'mooring'`);
  if (found.length === 0) await query(password, port, 'CREATE DATABASE mooring');
}

async function query(password: string, port: number, text: string): Promise<Record<string, unknown>[]> {
  const client = new Client({
    host: '127.0.0.1',
    port,
    user: 'mooring',
    password,
    database: 'postgres',
    connectionTimeoutMillis: START_TIMEOUT_MS,
  });
  // If the server ends meanwhile, the promise rejects; but without a listener, the event would end this process.
  client.on('error', () => undefined);
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(text)).rows;
  } finally {
    await client.end();
  }
}
