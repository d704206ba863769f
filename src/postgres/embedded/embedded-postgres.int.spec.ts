import { until } from '../../../test/support/until.ts';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';

import { Client } from 'pg';

import { removeDataDir } from '../../../test/support/data-dir.ts';
import { type EmbeddedPostgres, startEmbeddedPostgres } from './embedded-postgres.ts';
import { isAlive, isPostgresOn, readPostmaster } from './postgres-process.ts';

const root = new URL('../../../', import.meta.url);

describe('embedded PostgreSQL', () => {
  let home: string;
  let dataDir: string;
  let running: EmbeddedPostgres | undefined;

  beforeEach(() => {
    home = mkdtempSync(join(tmpdir(), 'mooring-pg-'));
    chmodSync(home, 0o711);
    dataDir = join(home, 'data');
  });

  afterEach(async () => {
    await running?.stop();
    running = undefined;
    await removeDataDir(dataDir);
    rmSync(home, { recursive: true, force: true });
  });

  // A process that ended stays in the process table until its parent reads its result, so its id alone does not show whether it runs.
  const serves = (pid: number) => isPostgresOn(realpathSync(join(dataDir, 'postgres')), pid);
  const start = async (options: { fast?: boolean } = {}) => (running = await startEmbeddedPostgres({ dataDir, ...options }));

  it('finds its data again after a restart', async () => {
    const first = await start();
    await ask(first.url, 'CREATE TABLE boats AS SELECT 7 AS berth');
    await first.stop();
    expect(serves(first.pid)).toBe(false);

    const second = await start();
    expect(await ask(second.url, 'SELECT berth FROM boats')).toEqual([{ berth: 7 }]);
    expect(new URL(second.url).username).toBe('mooring');
    expect(new URL(second.url).pathname).toBe('/mooring');
    expect(statSync(join(dataDir, 'postgres.password')).mode & 0o777).toBe(0o600);
  });

  it('starts the server again, at the same address, when it was killed', async () => {
    const server = await start();
    const { pid } = server;
    await ask(server.url, 'CREATE TABLE boats AS SELECT 7 AS berth');
    process.kill(pid, 'SIGKILL');
    const answer = () => ask(server.url, 'SELECT berth FROM boats').catch(() => undefined);
    await until('it answers again', async () => (server.pid === pid ? undefined : answer()), { everyMs: 100 });
    expect(await answer()).toEqual([{ berth: 7 }]);
    await server.stop();
    expect(serves(server.pid)).toBe(false);
  });

  it('starts the server again until it runs, if it is killed while it starts', async () => {
    let lost: Error | undefined;
    const server = (running = await startEmbeddedPostgres({ dataDir, onLost: (error) => (lost = error) }));
    await ask(server.url, 'CREATE TABLE boats AS SELECT 7 AS berth');
    const killed = new Set<number>();
    for (let kills = 0; kills < 3; kills += 1) {
      const next = () => [readPostmaster(join(dataDir, 'postgres'))?.pid ?? 0].find((pid) => pid > 0 && !killed.has(pid));
      const pid = await until('another server starts', async () => next(), { everyMs: 5 });
      process.kill(pid, 'SIGKILL');
      killed.add(pid);
    }
    const answer = () => ask(server.url, 'SELECT berth FROM boats').catch(() => undefined);
    expect(await until('it answers again', answer, { everyMs: 100 })).toEqual([{ berth: 7 }]);
    expect(lost).toBeUndefined();
  });

  it('starts the server again although one of its processes hangs', async () => {
    const server = await start();
    const { pid } = server;
    const holder = new Client({ connectionString: server.url });
    holder.on('error', () => undefined);
    await holder.connect();
    const { rows } = await holder.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    const hung = rows[0]?.pid ?? 0;
    try {
      process.kill(hung, 'SIGSTOP');
      process.kill(pid, 'SIGKILL');
      const answer = () => ask(server.url, 'SELECT 7 AS berth').catch(() => undefined);
      expect(await until('it answers again', async () => (server.pid === pid ? undefined : answer()))).toEqual([{ berth: 7 }]);
      expect(serves(hung)).toBe(false);
    } finally {
      if (serves(hung)) process.kill(hung, 'SIGKILL');
      await holder.end().catch(() => undefined);
    }
  });

  it('adopts the server of a killed process, with its data, and leaves no orphan', async () => {
    const { url, pid, parent } = await startInAnotherProcess(dataDir);
    await ask(url, 'CREATE TABLE boats AS SELECT 7 AS berth');
    await kill(parent);
    expect(serves(pid)).toBe(true);

    const after = await start();
    expect(after.pid).toBe(pid);
    expect(await ask(after.url, 'SELECT berth FROM boats')).toEqual([{ berth: 7 }]);

    await after.stop();
    expect(serves(pid)).toBe(false);
    await expect(reach(url)).rejects.toThrow('ECONNREFUSED');
  });

  it('starts when the server was killed with its process', async () => {
    const { url, pid, parent } = await startInAnotherProcess(dataDir);
    await ask(url, 'CREATE TABLE boats AS SELECT 7 AS berth');
    await kill(parent);
    process.kill(pid, 'SIGKILL');

    const after = await start();
    expect(after.pid).not.toBe(pid);
    expect(await ask(after.url, 'SELECT berth FROM boats')).toEqual([{ berth: 7 }]);
  });

  it('never adopts a server that does not force data to disk, unless asked to', async () => {
    const { pid, parent } = await startInAnotherProcess(dataDir, true);
    await kill(parent);

    const after = await start();
    expect(after.pid).not.toBe(pid);
    expect(serves(pid)).toBe(false);
    expect(await ask(after.url, 'SHOW fsync')).toEqual([{ fsync: 'on' }]);
    expect(await ask(after.url, 'SHOW wal_level')).toEqual([{ wal_level: 'replica' }]);
  });

  it('refuses a data directory that a living process uses', async () => {
    const first = await start({ fast: true });
    await expect(startEmbeddedPostgres({ dataDir })).rejects.toThrow(`is in use by process ${process.pid}`);
    expect(await ask(first.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });

  it('waits for a process that is about to end, and logs that', async () => {
    const { parent } = await startInAnotherProcess(dataDir, true);
    const said: string[] = [];
    const ended = once(parent, 'exit');
    const logger = {
      info: () => undefined,
      warn: (_: object, message: string) => {
        said.push(message);
        parent.kill('SIGKILL');
      },
    };
    running = await startEmbeddedPostgres({ dataDir, fast: true, logger });
    await ended;
    expect(said[0]).toBe(`process ${parent.pid} still uses the data directory; waiting up to 15 s for its end`);
    expect(await ask(running.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });

  it('takes over immediately from a zombie process', async () => {
    await (await start({ fast: true })).stop();
    // The shell's child ends after `sleep`, which never reads the child's result, has replaced the shell.
    const parent = spawn('sh', ['-c', 'cat <&3 & echo $!; exec sleep 60 3<&-'], { stdio: ['ignore', 'pipe', 'inherit', 'pipe'] });
    const [said] = (await once(parent.stdout as Readable, 'data')) as [Buffer];
    await until('the shell is replaced', () => readFileSync(`/proc/${parent.pid}/cmdline`, 'utf8').startsWith('sleep') || undefined);
    (parent.stdio[3] as Writable).end();
    const zombie = Number(String(said));
    const stat = () => readFileSync(`/proc/${zombie}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
    await until('the child has ended', () => stat()[0] === 'Z' || undefined);
    writeFileSync(join(dataDir, 'postgres.owner'), `${zombie} ${stat()[19]}`);
    const warnings: string[] = [];
    const logger = { info: () => undefined, warn: (_: object, message: string) => warnings.push(message) };
    running = await startEmbeddedPostgres({ dataDir, fast: true, logger });
    expect(warnings).toEqual([]);
    await kill(parent);
  });

  it('does not touch another process whose id is in an old postmaster.pid', async () => {
    await (await start({ fast: true })).stop();
    const stranger = spawn('sleep', ['60']);
    const file = join(dataDir, 'postgres', 'postmaster.pid');
    writeFileSync(file, `${stranger.pid}\n${dataDir}/postgres\n1\n5432\n\n127.0.0.1\n\nready   \n`);

    const after = await start({ fast: true });
    expect(after.pid).not.toBe(stranger.pid);
    expect(isAlive(stranger.pid as number)).toBe(true);
    await kill(stranger);
  });

  it('works in a folder that no other user may enter', async () => {
    mkdirSync(dataDir, { mode: 0o700 });
    chmodSync(home, 0o700);
    const first = await start({ fast: true });
    await ask(first.url, 'CREATE TABLE boats AS SELECT 7 AS berth');
    await first.stop();
    const second = await start({ fast: true });
    expect(await ask(second.url, 'SELECT berth FROM boats')).toEqual([{ berth: 7 }]);
  });

  it('reports the cause if the data was created by another PostgreSQL version', async () => {
    await (await start({ fast: true })).stop();
    writeFileSync(join(dataDir, 'postgres', 'PG_VERSION'), '14\n');
    await expect(startEmbeddedPostgres({ dataDir, fast: true })).rejects.toThrow('was created by PostgreSQL 14');
    writeFileSync(join(dataDir, 'postgres', 'PG_VERSION'), '18\n');
    expect(await ask((await start({ fast: true })).url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });

  it('listens only on loopback, in a process group of its own, with a log beside the data', async () => {
    const { url, pid } = await start({ fast: true });
    expect(await ask(url, 'SHOW listen_addresses')).toEqual([{ listen_addresses: '127.0.0.1' }]);
    expect(await ask(url, 'SHOW unix_socket_directories')).toEqual([{ unix_socket_directories: '' }]);
    expect(() => process.kill(-pid, 0)).not.toThrow();
    expect(readFileSync(join(dataDir, 'postgres.log'), 'utf8')).toContain('ready to accept connections');
  });
});

async function startInAnotherProcess(dataDir: string, fast = false): Promise<{ url: string; pid: number; parent: ChildProcess }> {
  const program = `
    const { startEmbeddedPostgres } = await import('./src/postgres/embedded/embedded-postgres.ts');
    const { url, pid } = await startEmbeddedPostgres(${JSON.stringify({ dataDir, fast })});
    process.stdout.write(JSON.stringify({ url, pid }));
    setInterval(() => undefined, 1_000);`;
  const args = ['--import', './scripts/typescript.mjs', '--input-type=module', '-e', program];
  const parent = spawn(process.execPath, args, { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] });
  const [said] = (await Promise.race([once(parent.stdout, 'data'), once(parent, 'exit')])) as [Buffer];
  return { ...(JSON.parse(String(said)) as { url: string; pid: number }), parent };
}

async function kill(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

async function ask(url: string, text: string): Promise<unknown[]> {
  const client = new Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  try {
    return (await client.query(text)).rows as unknown[];
  } finally {
    await client.end();
  }
}

async function reach(url: string): Promise<void> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  await once(socket, 'connect');
  socket.destroy();
}
