import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { ownerOf } from '../../src/postgres/embedded/postgres-owner.ts';
import { removeDataDir } from '../support/data-dir.ts';
import { until } from '../support/until.ts';

const root = resolve(import.meta.dirname, '../..');

/** A running `npm start`, as a supervisor runs it. */
interface Supervised {
  npm: ChildProcess;
  output: () => string;
}

describe('npm start under a supervisor', () => {
  let dataDir: string;
  const started: ChildProcess[] = [];

  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'mooring-start-'));
  });

  afterEach(async () => {
    for (const npm of started.splice(0)) npm.kill('SIGTERM');
    await until('nobody has the data directory', () => (ownerOf(dataDir) === null ? true : undefined));
    await removeDataDir(dataDir);
  });

  function start(): Supervised {
    const own = Object.entries(process.env).filter(([name]) => !/^(MOORING_|npm_|DATABASE_URL|PORT|HOST|NODE_OPTIONS|NODE_ENV)/.test(name));
    const settings = { PORT: '0', MOORING_DATA_DIR: dataDir, MOORING_RUNTIME: 'local', MOORING_SAMPLE_AGENT: 'off' };
    const npm = spawn('npm', ['start'], {
      cwd: root,
      env: { ...Object.fromEntries(own), ...settings },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    let output = '';
    for (const stream of [npm.stdout, npm.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
    started.push(npm);
    return { npm, output: () => output };
  }

  /** Returns the service's process id, as soon as it listens. */
  function serviceOf({ npm, output }: Supervised): Promise<number> {
    return until('the service listens', () => {
      if (npm.exitCode !== null) throw new Error(`npm start ended: ${output()}`);
      return /Mooring listens on/.test(output()) ? (ownerOf(dataDir) ?? undefined) : undefined;
    });
  }

  it('ends the service before npm ends, on SIGTERM', async () => {
    const supervised = start();
    await serviceOf(supervised);
    const ended = once(supervised.npm, 'exit');
    supervised.npm.kill('SIGTERM');
    await ended;
    expect(ownerOf(dataDir)).toBe(null);
  });

  it('stops in order on Ctrl-C, which the terminal sends to npm and to the service', async () => {
    const supervised = start();
    await serviceOf(supervised);
    const ended = once(supervised.npm, 'exit');
    process.kill(-(supervised.npm.pid as number), 'SIGINT');
    await ended;
    expect(supervised.output()).toContain('"stopped"');
    expect(ownerOf(dataDir)).toBe(null);
  });

  it('leaves no service behind if npm is killed', async () => {
    const supervised = start();
    await serviceOf(supervised);
    supervised.npm.kill('SIGKILL');
    await until('the service has ended', () => (ownerOf(dataDir) === null ? true : undefined));
  });

  it('starts again right after the service was killed', async () => {
    const first = await serviceOf(start());
    // The first process hangs, so it still exists when the next one starts.
    process.kill(first, 'SIGSTOP');
    const next = start();
    await until('the next one says that it waits', () => (/waiting up to \d+ s for its end/.test(next.output()) ? true : undefined));
    process.kill(first, 'SIGKILL');
    expect(await serviceOf(next)).not.toBe(first);
    expect(await readFile(join(dataDir, 'first-run.json'), 'utf8')).toContain('"url"');
  });

  it('prints no warning of Node while a caller follows a history', async () => {
    const supervised = start();
    await serviceOf(supervised);
    const { url, api_key: key } = JSON.parse(await readFile(join(dataDir, 'first-run.json'), 'utf8'));
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const body = JSON.stringify({ name: 'followed', templateId: 'hello' });
    const made = await fetch(`${url}/api/agents`, { method: 'POST', headers, body });
    const { agent_id: agentId } = (await made.json()) as { agent_id: string };
    const follows = await fetch(`${url}/api/v1/agents/${agentId}/history`, { headers: { ...headers, accept: 'text/event-stream' } });
    const reader = follows.body?.getReader();
    await reader?.read();
    await reader?.cancel();
    // Agents outlive the service.
    const removed = await fetch(`${url}/api/agents/${agentId}`, { method: 'DELETE', headers });
    const ended = once(supervised.npm, 'exit');
    supervised.npm.kill('SIGTERM');
    await ended;
    expect([follows.headers.get('content-type'), removed.ok]).toEqual([expect.stringContaining('text/event-stream'), true]);
    expect(supervised.output()).not.toMatch(/Warning/);
  });
});
