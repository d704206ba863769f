import { operate } from './log.ts';
import type { StartedService } from './started-service.ts';
import { clusterIn, databaseIn } from './witnesses.ts';

/** Returns the folder of the service's embedded database. */
export const clusterOf = (service: StartedService) => clusterIn(service.dataDir);

/** Returns the address of the service's embedded database, for its owner. */
export const databaseOf = (service: StartedService) => databaseIn(service.dataDir);

/** Returns every row of every table as text, with the table's name. */
export async function dump(url: string): Promise<[string, string][]> {
  const tables = `select quote_ident(table_name) as name from information_schema.tables where table_schema = 'public' and table_type = 'BASE TABLE'`;
  const dumped: [string, string][] = [];
  for (const { name } of await operate(url, tables))
    for (const { text } of await operate(url, `select t::text as text from ${String(name)} t`)) dumped.push([String(name), String(text)]);
  return dumped;
}
