import { readFile, realpath } from 'node:fs/promises';
import { join } from 'node:path';

import { Client } from 'pg';
import type Dockerode from 'dockerode';

import { readPostmaster } from '../../src/postgres/embedded/postgres-process.ts';

/** The last lines and events of a service, which are enough to see what led to a failure. */
const LOG_LINES_SHOWN = 40;
const EVENTS_SHOWN = 30;
/** The number of characters that are shown of a long line's beginning and end, where its message is. */
const LINE_BEGINNING_MAX = 300;
const LINE_END_MAX = 200;
const CONNECT_TIMEOUT_MS = 2_000;

/** Returns the last lines of a service's log. */
export function lastLogLines(lines: readonly string[]): string {
  const shown = lines.slice(-LOG_LINES_SHOWN).map((line) => shortened(line.trimEnd()));
  return [`the last ${shown.length} of ${lines.length} log lines:`, ...shown].join('\n');
}

function shortened(line: string): string {
  if (line.length <= LINE_BEGINNING_MAX + LINE_END_MAX) return line;
  return `${line.slice(0, LINE_BEGINNING_MAX)} … ${line.slice(-LINE_END_MAX)}`;
}

/** Returns the last events of all accounts without their data, which may contain secrets. Never throws. */
export async function lastEvents(databaseUrl: string): Promise<string> {
  const client = new Client({
    connectionString: databaseUrl,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    statement_timeout: CONNECT_TIMEOUT_MS,
  });
  // The server may end the connection at any time: the test that failed may have stopped it.
  client.on('error', () => undefined);
  try {
    await client.connect();
    const last = `select position, at, stream, type from es_event order by position desc limit ${EVENTS_SHOWN}`;
    const { rows } = await client.query<{ position: string; at: Date; stream: string; type: string }>(last);
    const shown = rows.toReversed().map(({ position, at, stream, type }) => `${position} ${at.toISOString()} ${stream} ${type}`);
    return [`the last ${shown.length} events in PostgreSQL:`, ...shown].join('\n');
  } catch (error) {
    return `no events, since the database does not answer: ${String(error)}`;
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** Returns the names and states of the containers on the engine, or of those with the label. Never throws. */
export async function containersOn(docker: Dockerode, label?: string): Promise<string> {
  try {
    const containers = await docker.listContainers({ all: true, filters: label === undefined ? {} : { label: [label] } });
    // The status of a container that has ended has its exit code: "Exited (137) 2 seconds ago".
    const shown = containers.map(({ Names, State, Status }) => `${Names.join(' ')} ${State}: ${Status}`);
    return [`${shown.length} containers:`, ...shown].join('\n');
  } catch (error) {
    return `no containers, since the engine does not answer: ${String(error)}`;
  }
}

/** Returns the folder of the embedded database that a service keeps in its data folder. */
export const clusterIn = (dataDir: string) => realpath(join(dataDir, 'postgres'));

/** Returns the address of the embedded database that a service keeps in its data folder, for its owner. */
export async function databaseIn(dataDir: string): Promise<string> {
  const password = (await readFile(join(dataDir, 'postgres.password'), 'utf8')).trim();
  const port = readPostmaster(await clusterIn(dataDir))?.port;
  return `postgres://mooring:${password}@127.0.0.1:${port}/mooring`;
}
