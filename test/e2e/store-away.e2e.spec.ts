import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import pg from 'pg';

import { startEmbeddedPostgres, type EmbeddedPostgres } from '../../src/postgres/embedded/embedded-postgres.ts';
import { ownerOf } from '../../src/postgres/embedded/postgres-owner.ts';
import { somePrefix } from '../support/eventstoredb/location.ts';
import { FakeEventStoreDb } from '../support/eventstoredb/fake-eventstoredb.ts';
import { removeDataDir } from '../support/data-dir.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

const root = resolve(import.meta.dirname, '../..');

/** Parts of the first statement that each part of the service sends at a start. */
const PARTS_OF_STATEMENTS = [
  'log_place',
  'max(position) as position from projection_checkpoints',
  'instance_id',
  'select kek_id from data_keys',
  'insert into program_replicas',
  'from projections p',
  'first_run',
];

/** The service as a process of its own, from the first moment on. */
class Starting {
  output = '';

  private constructor(private readonly process: ChildProcess) {
    for (const stream of [process.stdout, process.stderr]) stream?.on('data', (chunk: Buffer) => (this.output += chunk.toString()));
  }

  static on(dataDir: string, settings: Record<string, string>): Starting {
    const own = Object.entries(process.env).filter(([name]) => !/^(MOORING_|EVENT|npm_|DATABASE_URL|PORT|HOST|NODE_)/.test(name));
    const fixed = { PORT: '0', MOORING_DATA_DIR: dataDir, MOORING_RUNTIME: 'local', MOORING_SAMPLE_AGENT: 'off' };
    const env = { ...Object.fromEntries(own), ...fixed, ...settings };
    return new Starting(spawn(process.execPath, [join(root, 'dist', 'main.js')], { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'] }));
  }

  /** Returns the address, as soon as the service listens. */
  url(): Promise<string> {
    return until('the service listens', () => {
      if (this.process.exitCode !== null) throw new Error(`the service ended: ${this.output}`);
      return /"url":"([^"]+)","msg":"listening"/.exec(this.output)?.[1];
    });
  }

  get hasEnded(): boolean {
    return this.process.exitCode !== null || this.process.signalCode !== null;
  }

  /** Sends SIGTERM, unless the process has ended, and returns its exit code. */
  async stop(): Promise<number | null> {
    this.process.kill('SIGTERM');
    return this.ended();
  }

  async ended(): Promise<number | null> {
    if (!this.hasEnded) await once(this.process, 'exit');
    return this.process.exitCode;
  }
}

async function createDatabase(url: string, name: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(`create database ${name}`);
  await client.end();
}

async function looked(
  url: string,
  method = 'GET',
  body?: string,
): Promise<{ status: number; headers: Headers; body: Record<string, unknown> }> {
  const response = await fetch(url, { method, ...(body === undefined ? {} : { body, headers: { 'content-type': 'application/json' } }) });
  return { status: response.status, headers: response.headers, body: (await response.json()) as Record<string, unknown> };
}

/** Waits until `/ready` reports that the start waits for the store. */
async function untilItWaits(url: string, store: string, sentence: string): Promise<void> {
  const awaited = { name: store, status: 'unavailable', required: true, detail: sentence };
  const ready = await until(`the start waits for ${store}`, async () => {
    const answer = await looked(`${url}/ready`);
    return JSON.stringify(answer.body).includes(store) ? answer : undefined;
  });
  expect(ready).toMatchObject({ status: 503, body: { status: 'unavailable', dependencies: [awaited] } });
}

async function untilReady(url: string): Promise<void> {
  await until('the service is ready', async () => ((await looked(`${url}/ready`)).status === 200 ? true : undefined));
}

describe('a start while the database is away', () => {
  let folder: string;
  let dataDir: string;
  let database: EmbeddedPostgres;
  let proxy: TcpProxy;
  let databaseUrl: string;
  const started: Starting[] = [];

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'mooring-late-'));
    await chmod(folder, 0o711);
    database = await startEmbeddedPostgres({ dataDir: folder });
    proxy = await TcpProxy.start();
    databaseUrl = proxy.through(database.url);
  });

  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'mooring-store-away-'));
  });

  afterEach(async () => {
    for (const service of started.splice(0)) await service.stop();
    await removeDataDir(dataDir);
  });

  afterAll(async () => {
    await proxy?.close();
    await database?.stop();
    await removeDataDir(folder);
  });

  function start(settings: Record<string, string>): Starting {
    const service = Starting.on(dataDir, settings);
    started.push(service);
    return service;
  }

  it('logs that it waits for the database, and serves at the same address once the database was started', async () => {
    await database.stop();
    const service = start({ DATABASE_URL: databaseUrl });
    const url = await service.url();
    await untilItWaits(url, 'database', 'The service is starting, and waits for its database, which does not answer.');
    expect(await looked(`${url}/health`)).toMatchObject({ status: 200, body: { status: 'ok', runtime: 'fleet' } });
    const refused = await looked(`${url}/api/agents`, 'POST', JSON.stringify({ name: 'early' }));
    expect(refused).toMatchObject({ status: 503, body: { code: 'event_store_unavailable', status: 503 } });
    expect(refused.headers.get('content-type')).toBe('application/problem+json');
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(refused.headers.get('x-request-id')).toBe(refused.body.request_id);
    database = await startEmbeddedPostgres({ dataDir: folder });
    proxy.target = Number(new URL(database.url).port);
    await untilReady(url);
    expect(await looked(`${url}/api/agents`)).toMatchObject({ status: 401 });
    expect(await service.stop()).toBe(0);
    expect(service.output).toContain('"stopped"');
  });

  it('waits for a database that goes away in the middle of the start, whatever it has reached', async () => {
    const port = Number(new URL(database.url).port);
    const fresh = new URL(databaseUrl);
    fresh.pathname = '/fresh';
    await createDatabase(database.url, 'fresh');
    const left = new Set(PARTS_OF_STATEMENTS);
    proxy.target = port;
    proxy.onSent = (bytes) => {
      const part = [...left].find((each) => bytes.includes(each));
      if (part === undefined || !left.delete(part)) return;
      proxy.target = null;
      proxy.refused = 0;
      proxy.cut();
    };
    const service = start({ DATABASE_URL: fresh.href });
    const url = await service.url();
    await until('the service is ready, though its database went away at each of its first statements', async () => {
      if (service.hasEnded) throw new Error(`the service ended: ${service.output}`);
      if (proxy.target === null && proxy.refused > 0) proxy.target = port;
      return (await looked(`${url}/ready`)).status === 200 && left.size === 0 ? true : undefined;
    });
    expect(await looked(`${url}/api/agents`)).toMatchObject({ status: 401 });
    proxy.onSent = () => undefined;
    expect(await service.stop()).toBe(0);
  });

  it('ends cleanly on SIGTERM while it waits', async () => {
    proxy.target = null;
    const service = start({ DATABASE_URL: databaseUrl });
    await untilItWaits(await service.url(), 'database', 'The service is starting, and waits for its database, which does not answer.');
    expect(await service.stop()).toBe(0);
    expect(service.output).toContain('stopped before the start was over');
  });

  it('ends with the reason for an error that waiting can’t fix', async () => {
    const wrong = new URL(database.url);
    wrong.password = 'wrong';
    const service = start({ DATABASE_URL: wrong.href });
    expect(await service.ended()).toBe(1);
    expect(service.output).toContain('mooring: the start failed: password authentication failed');
  });
});

describe('a start while the event store is away', () => {
  let dataDir: string;
  let standIn: FakeEventStoreDb;
  let service: Starting;

  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'mooring-store-away-'));
    await chmod(dataDir, 0o711);
    standIn = await FakeEventStoreDb.start();
  });

  afterEach(async () => {
    await service?.stop();
    await standIn.stop();
    await removeDataDir(dataDir);
  });

  const settings = () => ({ EVENT_STORE: 'eventstoredb', EVENTSTORE_URL: standIn.url, EVENTSTORE_PREFIX: somePrefix() });

  it('says what it waits for, and serves at the same address once the event store was started', async () => {
    await standIn.kill();
    service = Starting.on(dataDir, settings());
    const url = await service.url();
    await untilItWaits(url, 'event_store', 'The service is starting, and waits for its event store, which does not answer.');
    expect((await looked(`${url}/health`)).status).toBe(200);
    expect((await looked(`${url}/api/agents`)).status).toBe(503);
    await standIn.restart();
    await untilReady(url);
    expect(await service.stop()).toBe(0);
  });

  it('stops its embedded database too, on SIGTERM while it waits', async () => {
    await standIn.kill();
    service = Starting.on(dataDir, settings());
    await untilItWaits(
      await service.url(),
      'event_store',
      'The service is starting, and waits for its event store, which does not answer.',
    );
    expect(ownerOf(dataDir)).not.toBe(null);
    expect(await service.stop()).toBe(0);
    expect(ownerOf(dataDir)).toBe(null);
  });

  it('ends with the reason if the event store refuses the user', async () => {
    standIn.onRead = () => 'denied';
    service = Starting.on(dataDir, settings());
    expect(await service.ended()).toBe(1);
    expect(service.output).toContain('the event store refuses the user: EVENTSTORE_URL must name one');
  });
});
