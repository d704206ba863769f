import { mkdtemp, rm } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { type DynamicModule, Module, type ModuleMetadata, type Type } from '@nestjs/common';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { pino } from 'pino';

import { ConfigModule } from '../../src/kernel/config/config.module.ts';
import type { Config } from '../../src/kernel/config/config.ts';
import { readConfig } from '../../src/kernel/config/read-config.ts';
import type { Environment } from '../../src/kernel/config/setting-reader.ts';
import type { Intervals } from '../../src/kernel/config/intervals.ts';
import { createServer } from '../../src/http/server/server.ts';
import { routeByDomain } from '../../src/features/traffic/index.ts';
import { addWitness } from '../runner/evidence.ts';
import { eventStoreEnvironment } from './eventstoredb/location.ts';
import { freshDatabase } from './postgres.ts';
import { lastEvents, lastLogLines } from './witnesses.ts';

export interface TestServer {
  app: NestFastifyApplication;
  config: Config;
  url: string;
  databaseUrl: string;
  /** All lines that the server logged. */
  logLines: string[];
  request(method: string, path: string, options?: RequestOptions): Promise<TestResponse>;
  close(): Promise<void>;
}

export interface RequestOptions {
  /** The body, which is sent as JSON. */
  json?: unknown;
  body?: string | Buffer;
  headers?: Record<string, string>;
  /** The credential, which is sent as `Authorization: Bearer`. */
  credential?: string;
}

export interface TestResponse {
  status: number;
  headers: Headers;
  text: string;
  /** The parsed body, or null if it is not JSON. */
  // oxlint-disable-next-line no-explicit-any -- tests look into answers of every shape
  json: any;
}

@Module({})
class TestModule {}

/** Starts a real server on a free port with its own database; `parts` returns its modules, controllers and providers. */
export async function startTestServer(
  parts: (config: Config) => ModuleMetadata | Promise<ModuleMetadata>,
  environment: Environment = {},
  intervals?: Intervals,
): Promise<TestServer> {
  const database = await freshDatabase();
  const dataDir = await mkdtemp(join(tmpdir(), 'mooring-http-'));
  const log = eventStoreEnvironment(database.url);
  const config = readConfig({ MOORING_DATA_DIR: dataDir, DATABASE_URL: database.url, PORT: '0', ...log, ...environment });
  const logLines: string[] = [];
  const logger = pino({ level: 'info' }, { write: (line: string) => void logLines.push(line) });
  // A server that does not start stays registered as a witness until the file ends.
  const forget = addWitness('test server', async () => `${lastLogLines(logLines)}\n${await lastEvents(database.url)}`);
  const { imports = [], ...rest } = await parts(config);
  const module: DynamicModule = {
    module: TestModule as Type,
    imports: [ConfigModule.forRoot(config, undefined, intervals), ...imports],
    ...rest,
  };
  const cleanUp = async () => {
    await database.drop();
    await rm(dataDir, { recursive: true, force: true });
  };
  const { agentDomain, largeBodiesMbPerSecond, trustedProxies } = config;
  const how = { logLevel: 'info', pino: logger, trustedProxies, largeBodiesMbPerSecond, rewriteUrl: routeByDomain(agentDomain) };
  const app = await createServer(module, how).catch(async (error: unknown) => {
    await cleanUp();
    throw error;
  });
  await app.listen(0, '127.0.0.1');
  const { port } = app.getHttpServer().address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  return {
    app,
    config,
    url,
    databaseUrl: database.url,
    logLines,
    request: (method, path, options) => request(url, method, path, options),
    close: async () => {
      await app.close();
      await cleanUp();
      forget();
    },
  };
}

async function request(url: string, method: string, path: string, options: RequestOptions = {}): Promise<TestResponse> {
  const { json, credential } = options;
  const answer = await fetch(`${url}${path}`, {
    method,
    headers: {
      connection: 'close',
      ...(json === undefined ? {} : { 'content-type': 'application/json' }),
      ...(credential === undefined ? {} : { authorization: `Bearer ${credential}` }),
      ...options.headers,
    },
    body: json === undefined ? options.body : JSON.stringify(json),
  });
  const text = await answer.text();
  return { status: answer.status, headers: answer.headers, text, json: parsed(text) };
}

// oxlint-disable-next-line no-explicit-any -- as above
function parsed(text: string): any {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
