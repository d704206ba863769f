import { readFile, realpath } from 'node:fs/promises';
import { join } from 'node:path';

import { readPostmaster } from '../../src/platform/database/postgres-process.ts';
import { operate } from './log.ts';
import type { StartedService } from './started-service.ts';

/** Returns the folder of the service's embedded database. */
export const clusterOf = (service: StartedService) => realpath(join(service.dataDir, 'postgres'));

/** Returns the address of the service's embedded database, for its owner. */
export async function databaseOf(service: StartedService): Promise<string> {
  const password = (await readFile(join(service.dataDir, 'postgres.password'), 'utf8')).trim();
  const port = readPostmaster(await clusterOf(service))?.port;
  return `postgres://mooring:${password}@127.0.0.1:${port}/mooring`;
}

/** Returns every row of every table as text, with the table's name. */
export async function dump(url: string): Promise<[string, string][]> {
  const tables = `select quote_ident(table_name) as name from information_schema.tables where table_schema = 'public' and table_type = 'BASE TABLE'`;
  const dumped: [string, string][] = [];
  for (const { name } of await operate(url, tables))
    for (const { text } of await operate(url, `select t::text as text from ${String(name)} t`)) dumped.push([String(name), String(text)]);
  return dumped;
}
