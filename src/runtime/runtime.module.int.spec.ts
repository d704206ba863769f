import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Test } from '@nestjs/testing';
import { readConfig } from '../kernel/config/read-config.ts';
import { ConfigModule } from '../kernel/config/config.module.ts';
import { FakeDockerEngine } from '../../test/support/fake-docker-engine/fake-docker-engine.ts';
import { testContainerKey } from '../../test/support/container-key.ts';
import { freshDatabase, type TestDatabase } from '../../test/support/postgres.ts';
import { until } from '../../test/support/until.ts';
import { testDatabase } from '../../test/support/test-database.ts';
import { CryptoModule } from '../crypto/crypto.module.ts';
import type { Database } from '../postgres/database/database.ts';
import { openDatabase } from '../postgres/database/open-database.ts';
import { Installation } from '../postgres/database/installation.ts';
import { instanceId, sharedInstance } from './instance-id.ts';
import { openRuntime, RuntimeModule } from './runtime.module.ts';
import { ContainerRuntime } from './runtime.ts';

describe('the choice of a runtime', () => {
  const given = process.env.DOCKER_HOST;
  let folder: string;
  let said: string[];
  const home = { id: 'abcdefabcdef', hasFolder: true };
  const key = async () => testContainerKey(home.id);
  const shown = (message: unknown) => (typeof message === 'string' ? message : JSON.stringify(message));
  const logger = { log: (message: unknown) => said.push(shown(message)), warn: (message: unknown) => said.push(shown(message)) };
  const config = (runtime: string, production = false, builder = 'buildkit') =>
    Object.assign(readConfig({ MOORING_DATA_DIR: join(folder, 'data'), MOORING_RUNTIME: runtime, MOORING_BUILDER: builder }), {
      production,
    });

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'mooring-runtime-'));
    process.env.DOCKER_HOST = `unix://${folder}/engine.sock`;
    said = [];
  });
  afterEach(() => {
    if (given === undefined) delete process.env.DOCKER_HOST;
    else process.env.DOCKER_HOST = given;
    delete process.env.DOCKER_TLS_VERIFY;
    delete process.env.DOCKER_CERT_PATH;
    rmSync(folder, { recursive: true, force: true });
  });

  it('chooses the local runtime if no engine responds, and warns that it does not isolate', async () => {
    const runtime = await openRuntime(config('auto'), home, logger, key);
    expect(runtime.name).toBe('local');
    expect(said.join('\n')).toMatch(/No container engine answers[^]*AGENTS ARE NOT ISOLATED/);
    await runtime.close();
  });

  it('refuses to fall back to the local runtime in production', async () => {
    await expect(openRuntime(config('auto', true), home, logger, key)).rejects.toThrow(/No container engine answers.*NODE_ENV=production/);
    expect(() => readConfig({ NODE_ENV: 'production', MOORING_RUNTIME: 'local', MOORING_MASTER_KEY: 'a'.repeat(64) })).toThrow(
      /MOORING_RUNTIME=local/,
    );
  });

  it('starts with no engine of another machine that others could take over or listen to', async () => {
    const open = async (more: Record<string, string> = {}) =>
      openRuntime(Object.assign(config('docker'), readConfig(more)), home, logger, key);
    process.env.DOCKER_HOST = 'tcp://192.0.2.7:2375';
    await expect(open()).rejects.toThrow('without TLS anybody on the network could take that machine over');
    Object.assign(process.env, { DOCKER_TLS_VERIFY: '1', DOCKER_CERT_PATH: folder });
    await expect(open()).rejects.toThrow('DOCKER_CERT_PATH must hold ca.pem');
    for (const name of ['ca.pem', 'cert.pem', 'key.pem'])
      writeFileSync(join(folder, name), '-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n');
    await expect(open()).rejects.toThrow('MOORING_AGENT_BIND_ADDRESS');
    const runtime = await open({ MOORING_AGENT_ADDRESSES: 'container' });
    await runtime.close();
  });

  it('chooses Docker if it is configured, with or without an engine', async () => {
    const runtime = await openRuntime(config('docker'), home, logger, key);
    expect([runtime.name, said]).toEqual(['docker', []]);
    await runtime.close();
  });

  it('warns that builds are not isolated if the operator chose the engine’s own builder', async () => {
    const runtime = await openRuntime(config('docker', false, 'engine'), home, logger, key);
    await until('it is said', () => (said.length > 0 ? true : undefined));
    expect(said.join('\n')).toMatch(/BUILDS OF DOCKERFILES ARE NOT ISOLATED.*MOORING_BUILDER=engine/);
    await runtime.close();
  });

  describe('with an engine', () => {
    let server: Server;
    const listen = (onConnection: (write: (text: string) => void) => void) =>
      new Promise<void>((resolve) => {
        server = createServer((socket) => {
          socket.on('error', () => undefined);
          socket.on('data', () => onConnection((text) => socket.end(text)));
        }).listen(join(folder, 'engine.sock'), resolve);
      });
    afterEach(() => new Promise((resolve) => server.close(resolve)));

    it('chooses Docker if the engine responds', async () => {
      await listen((write) => write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nOK'));
      const runtime = await openRuntime(config('auto'), home, logger, key);
      expect(runtime.name).toBe('docker');
      await runtime.close();
    });

    it('chooses the local runtime if the engine does not respond', async () => {
      const waiting: ((text: string) => void)[] = [];
      await listen((write) => waiting.push(write));
      const runtime = await openRuntime(config('auto'), home, logger, key);
      expect(runtime.name).toBe('local');
      for (const write of waiting) write('');
    });
  });

  describe('with an engine that is not supported', () => {
    let engine: FakeDockerEngine;
    beforeEach(async () => {
      engine = await FakeDockerEngine.start();
      engine.traits.version = { Version: '5.3.1', Components: [{ Name: 'Podman Engine' }] };
      process.env.DOCKER_HOST = `unix://${engine.socket}`;
    });
    afterEach(() => engine.close());

    it('chooses the local runtime, and reports why', async () => {
      const runtime = await openRuntime(config('auto'), home, logger, key);
      expect(runtime.name).toBe('local');
      expect(said.join('\n')).toMatch(/is Podman[^]*Docker Engine 20\.10 to 29 is supported[^]*AGENTS ARE NOT ISOLATED/);
      await runtime.close();
    });

    it('does not start in production, and reports why', async () => {
      await expect(openRuntime(config('auto', true), home, logger, key)).rejects.toThrow(/is Podman.*NODE_ENV=production/);
      engine.traits.version = {};
      engine.traits.api.highest = 40;
      await expect(openRuntime(config('auto', true), home, logger, key)).rejects.toThrow(/version 1\.41 of its API.*NODE_ENV=production/);
    });

    it('waits for another one if Docker is configured, as for an unavailable one', async () => {
      const runtime = await openRuntime(config('docker'), home, logger, key);
      expect(await runtime.engineStatus()).toMatchObject({ lack: expect.stringContaining('is Podman') });
      expect(said.join('\n')).toMatch(/THE CONTAINER ENGINE IS NOT SUPPORTED.*Podman/);
      await expect(runtime.ping()).rejects.toThrow(/is Podman/);
      expect(await runtime.available()).toBe(false);
      await runtime.close();
    });
  });

  it('is available to every part of the application', async () => {
    const database = await freshDatabase();
    const outside = Object.assign(config('local'), { databaseUrl: database.url });
    const module = await Test.createTestingModule({
      imports: [ConfigModule.forRoot(outside), testDatabase(), CryptoModule, RuntimeModule],
    }).compile();
    expect(module.get(ContainerRuntime).name).toBe('local');
    await module.close();
    await database.drop();
  });

  it('keeps the instance id across starts, and creates only one when two start at once', async () => {
    const dataDir = join(folder, 'data');
    const ids = await Promise.all([instanceId(dataDir), instanceId(dataDir), instanceId(dataDir)]);
    expect(new Set(ids).size).toBe(1);
    expect(ids[0]).toMatch(/^[0-9a-f]{12}$/);
    expect(readFileSync(join(dataDir, 'instance-id'), 'utf8').trim()).toBe(ids[0]);
    expect(statSync(join(dataDir, 'instance-id')).mode & 0o777).toBe(0o644);
    writeFileSync(join(dataDir, 'instance-id'), 'something else');
    await expect(instanceId(dataDir)).rejects.toThrow('does not hold an instance id');
  });

  it('needs no container key without containers', async () => {
    const runtime = await openRuntime(config('local'), home, logger, () => Promise.reject(new Error('no key')));
    expect(runtime.name).toBe('local');
    await runtime.close();
    await expect(openRuntime(config('docker'), home, logger, () => Promise.reject(new Error('no key')))).rejects.toThrow('no key');
  });

  describe('of a replica', () => {
    let test: TestDatabase;
    let database: Database;
    let installation: Installation;
    const place = (name: string, databaseUrl: string | null = test.url) => ({ dataDir: join(folder, name), databaseUrl });

    beforeEach(async () => {
      test = await freshDatabase();
      database = await openDatabase({ url: test.url, allowUnsafe: true });
      installation = new Installation(database);
    });
    afterEach(async () => {
      await database.close();
      await test.drop();
    });

    it('shares the instance with all users of the database, also if several start at once on an empty one', async () => {
      const places = ['a', 'b', 'b', 'b', 'b', 'c'].map((name) => place(name));
      const found = await Promise.all(places.map((each) => sharedInstance(each, installation)));
      expect(new Set(found.map(({ id }) => id)).size).toBe(1);
      const again = await Promise.all(places.map((each) => sharedInstance(each, installation)));
      expect(again).toEqual(found);
      expect(new Set(['a', 'b', 'c'].filter((name) => existsSync(join(folder, name, 'instance-id')))).size).toBe(1);
      const guest = found.find(({ hasFolder }) => !hasFolder);
      await expect(openRuntime(config('local'), guest ?? home, logger, key)).rejects.toThrow('the same MOORING_DATA_DIR');
    });

    it('refuses the data folder of another installation', async () => {
      await instanceId(join(folder, 'other'));
      await sharedInstance(place('own'), installation);
      await expect(sharedInstance(place('other'), installation)).rejects.toThrow('give each installation a folder of its own');
    });

    it('trusts an embedded database more than the file beside it', async () => {
      const { id } = await sharedInstance(place('own'), installation);
      await instanceId(join(folder, 'moved'));
      expect(await sharedInstance(place('moved', null), installation)).toEqual({ id, hasFolder: true });
      expect(await instanceId(join(folder, 'moved'))).toBe(id);
    });
  });
});
