import { stat } from 'node:fs/promises';
import { join } from 'node:path';

import type pg from 'pg';

import type { Config } from '../kernel/config/config.ts';
import { copyOut, rowsOf } from '../postgres/database/copy.ts';
import { addressOf, connectOwner, refuseHalfRestored } from '../postgres/database/migrate.ts';
import { reachPostgres } from '../postgres/embedded/reach-postgres.ts';
import { readIfExists } from '../kernel/files.ts';
import { ArchiveWriter, type Manifest } from './archive.ts';
import { backedUpTables, keyTable } from './tables.ts';

export interface BackupOptions {
  /** The file to write, or a folder, in which the file is named with the time. */
  to: string;
  /** The keys are `included`, in a separate file (`{apart}`), left out (`none`), or the only content (`only`). */
  keys: 'included' | 'none' | 'only' | { apart: string };
}

export interface WrittenFile {
  file: string;
  manifest: Manifest;
}

type Facts = Pick<Manifest, 'at' | 'instance_id' | 'event_store' | 'migrations' | 'heads' | 'master_key_ids'>;

/**
 * Writes the log, and the tables that no event records, as of one moment, while services run. Memory is bounded. A file appears under its
 * name once it is complete and on disk, and not at all if anything fails.
 */
export async function backUp(config: Config, options: BackupOptions): Promise<WrittenFile[]> {
  const server = await reachPostgres(config);
  try {
    const client = await connectOwner(addressOf(server.url));
    try {
      await refuseHalfRestored(client);
      // Every statement sees the database as of the first one.
      await client.query('begin transaction isolation level repeatable read read only');
      return await writeFiles(client, await factsOf(client, config), options);
    } finally {
      await client.end();
    }
  } finally {
    await server.release();
  }
}

async function writeFiles(client: pg.Client, facts: Facts, { to, keys }: BackupOptions): Promise<WrittenFile[]> {
  if (keys !== 'none' && facts.master_key_ids.length > 1)
    throw new Error('a rotation of the master key is rewrapping the data keys: back up again when it has finished');
  const file = await fileFor(to, facts, keys === 'only' ? 'keys' : 'backup');
  if (keys === 'only') return [await write(client, facts, file, 'only')];
  if (typeof keys === 'string') return [await write(client, facts, file, keys)];
  // The keys are written first, so that a failure never leaves a log without its keys.
  const apart = await write(client, facts, await fileFor(keys.apart, facts, 'keys'), 'only');
  return [await write(client, facts, file, 'none'), apart];
}

async function write(client: pg.Client, facts: Facts, file: string, keys: Manifest['keys']): Promise<WrittenFile> {
  const tables = { ...(keys === 'only' ? {} : backedUpTables), ...(keys === 'none' ? {} : { [keyTable]: 'subject, version' }) };
  const archive = ArchiveWriter.create(file);
  try {
    for (const [table, order] of Object.entries(tables)) {
      const columns = await columnsOf(client, table);
      const text = `copy (select ${columns.map((name) => `"${name}"`).join(', ')} from public.${table} order by ${order}) to stdout`;
      await archive.table(table, columns, bytesOf(client, text));
    }
    return { file, manifest: await archive.finish({ ...facts, keys }) };
  } catch (error) {
    await archive.abandon();
    throw error;
  }
}

async function* bytesOf(client: pg.Client, text: string): AsyncGenerator<Buffer> {
  for await (const slab of copyOut(client, text)) yield rowsOf(slab);
}

async function factsOf(client: pg.Client, config: Config): Promise<Facts> {
  const { rows } = await client.query<{ at: Date; core: string; log: string; events: string }>(
    `select now() as at, (select count(*) from es_event) as events,
            (select coalesce(max(position), 0) from es_event) as core, (select coalesce(max(position), 0) from es_log_event) as log`,
  );
  const { at, core, log, events } = rows[0] as (typeof rows)[0];
  if (events !== core)
    throw new Error(`the log has gaps: ${events} events up to position ${core}; this is not an intact database of Mooring`);
  const migrations = await client.query<{ name: string }>('select name from mooring_migration order by id');
  const masters = await client.query<{ kek_id: string }>('select distinct kek_id from data_keys where wrapped is not null order by kek_id');
  return {
    at: at.toISOString(),
    instance_id: (await readIfExists(join(config.dataDir, 'instance-id')))?.trim() ?? null,
    event_store: config.eventStore,
    migrations: migrations.rows.map(({ name }) => name),
    heads: { core, log },
    master_key_ids: masters.rows.map(({ kek_id }) => kek_id),
  };
}

async function columnsOf(client: pg.Client, table: string): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `select attname as name from pg_attribute where attrelid = ('public.' || $1)::regclass and attnum > 0 and not attisdropped order by attnum`,
    [table],
  );
  return rows.map(({ name }) => name);
}

async function fileFor(to: string, { at, instance_id }: Facts, kind: 'backup' | 'keys'): Promise<string> {
  const isFolder = await stat(to).then(
    (found) => found.isDirectory(),
    () => false,
  );
  const time = at.replaceAll(/[-:]|\.\d+/g, '');
  return isFolder ? join(to, `mooring-${instance_id ?? 'unnamed'}-${time}.${kind}.tar.gz`) : to;
}
