import type { AddressInfo } from 'node:net';

import { CommandBus } from '@nestjs/cqrs';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';

import { AppModule } from './app.module.ts';
import type { Config } from './kernel/config/config.ts';
import { readConfig } from './kernel/config/read-config.ts';
import { firstRun } from './bootstrap/first-run.ts';
import { Database } from './postgres/database/database.ts';
import { isOutage } from './eventsourcing/event-store/outage.ts';
import { drain } from './http/server/drain.ts';
import { HttpListener } from './http/server/http-listener.ts';
import { createPino } from './kernel/observability/logger.ts';
import { createServer } from './http/server/server.ts';
import { Startup } from './kernel/startup.ts';
import { routeByDomain } from './features/traffic/index.ts';
import { onParentGone } from './bootstrap/parent-watch.ts';
import { welcome } from './bootstrap/welcome.ts';

/** The longest time that a stop may take, in ms; the process then exits anyway. Nothing that was acknowledged is lost by that. */
const STOP_TIMEOUT_MS = 25_000;
/** The part of that time in which open requests may finish, in ms. */
const DRAIN_TIMEOUT_MS = 20_000;

/** The time, in ms, within which repeated signals count as one: Ctrl-C reaches the service twice, from the terminal and from npm. */
const SAME_SIGNAL_MS = 500;
/** The longest wait for the port at a start, in ms: a killed process takes a moment to release it. */
const PORT_PATIENCE_MS = 5_000;

const config = configOrExit();
const log = createPino(config.logLevel);
process.on('unhandledRejection', (reason) => die('a promise was rejected without a handler', reason));
process.on('uncaughtException', (error) => die('an error was thrown and not caught', error));
await run().catch((error: unknown) => die(startFailure(error), error));

/** Listens first, so that a start which waits for its store is seen to do so. */
async function run(): Promise<void> {
  const entrance = new HttpListener();
  const stopping = new AbortController();
  const starting = start(entrance, stopping.signal);
  const stop = stopOnce(stopping, starting);
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, stop);
  if (process.env.npm_lifecycle_event !== undefined) onParentGone(() => stop('the end of npm'));
  await starting;
}

/** Starts the service, with its first run. The signal ends a wait for a store, and so the process. */
async function start(entrance: HttpListener, signal: AbortSignal): Promise<NestFastifyApplication> {
  const taken = () => log.warn({ port: config.port }, `the port is taken; waiting up to ${PORT_PATIENCE_MS / 1_000} s for it`);
  await entrance.listen(config.port, config.host, PORT_PATIENCE_MS, taken);
  const url = urlOf(entrance, config);
  log.info({ url }, 'listening');
  const startup = new Startup({ signal, onChange: (store) => entrance.showWaitingFor(store) });
  const { logLevel, trustedProxies, largeBodiesMbPerSecond } = config;
  try {
    const app = await createServer(AppModule.forRoot(config, { startup }), {
      logLevel,
      pino: log,
      trustedProxies,
      largeBodiesMbPerSecond,
      listener: entrance,
      rewriteUrl: routeByDomain(config.agentDomain),
    });
    const made = await startup.until('database', isOutage, () => firstRun(app.get(CommandBus), app.get(Database), config, url));
    process.stdout.write(made === null ? `Mooring listens on ${url}\n` : welcome(made, config.adminPassword));
    return app;
  } catch (error) {
    await startup.failed();
    if (!signal.aborted) throw error;
    log.info('stopped before the start was over');
    process.exit(0);
  }
}

/** Returns the address at which the service can be reached, with the actual port if the configuration left it open. */
function urlOf({ server }: HttpListener, { baseUrl, host }: Config): string {
  if (baseUrl !== null) return baseUrl;
  const { port } = server.address() as AddressInfo;
  const reachable = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  return `http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`;
}

/**
 * Returns a function whose first call stops the service in order: it ends the waits of a start, closes the port, finishes open requests, and
 * closes the parts. A later call, beyond `SAME_SIGNAL_MS`, ends the process at once.
 */
function stopOnce(stopping: AbortController, starting: Promise<NestFastifyApplication>): (reason: string) => void {
  let since: number | null = null;
  return (reason) => {
    const now = performance.now();
    if (since !== null && now - since > SAME_SIGNAL_MS) process.exit(1);
    if (since !== null) return;
    since = now;
    log.info({ reason }, 'stopping');
    setTimeout(() => die(`the stop took longer than ${STOP_TIMEOUT_MS} ms`), STOP_TIMEOUT_MS).unref();
    stopping.abort();
    starting.then(stopInOrder).catch((error: unknown) => die('the stop failed', error));
  };
}

/** Closes the HTTP server first, while everything that its requests need still runs. */
async function stopInOrder(app: NestFastifyApplication): Promise<never> {
  await drain(app, DRAIN_TIMEOUT_MS);
  await app.close();
  log.info('stopped');
  process.exit(0);
}

function configOrExit(): Config {
  try {
    return readConfig(process.env);
  } catch (error) {
    process.stderr.write(`mooring: ${(error as Error).message}\n`);
    process.exit(1);
  }
}

function startFailure(error: unknown): string {
  const { code } = (error ?? {}) as { code?: unknown };
  if (code === 'EADDRINUSE')
    return `port ${config.port} on ${config.host} is taken by another program; choose one with PORT (0 picks a free one)`;
  if (code === 'EACCES') return `port ${config.port} on ${config.host} may not be used; choose one above 1023 with PORT`;
  if (code === 'EADDRNOTAVAIL') return `${config.host} is not an address of this machine; see HOST`;
  return `the start failed: ${error instanceof Error ? error.message : String(error)}`;
}

function die(message: string, error?: unknown): never {
  log.fatal(error === undefined ? {} : { err: error }, message);
  process.stderr.write(`mooring: ${message}\n`);
  process.exit(1);
}
