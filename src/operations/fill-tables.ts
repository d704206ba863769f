import type pg from 'pg';

import { copyIn } from '../postgres/database/copy.ts';
import { readArchive, type Manifest } from './archive.ts';
import type { CheckedBackup } from './checked-backup.ts';
import { KeyRows } from './key-rows.ts';
import { consumerTables, guardedTables, backedUpTables, keyTable, excludedTables } from './tables.ts';

const TOMBSTONES_AT_A_TIME = 1_000;
/** The key version of a tombstone whose subject has no key. */
const TOMBSTONE_VERSION = 1;

const ownTables = [...Object.keys(backedUpTables), keyTable, ...excludedTables];

/** Returns whether the database contains nothing that a backup would contain. */
export async function isEmpty(owner: pg.Client): Promise<boolean> {
  const filled = ['es_event', 'es_log_event', 'account_credentials', keyTable].map((table) => `exists (select from public.${table})`);
  const { rows } = await owner.query<{ filled: boolean }>(`select ${filled.join(' or ')} as filled`);
  return rows[0]?.filled === false;
}

/** Empties the tables and drops the read models, which services rebuild from the log. */
export async function clearTables(owner: pg.Client): Promise<void> {
  await removeReadModels(owner);
  for (const table of guardedTables) await owner.query(`alter table public.${table} disable trigger user`);
  await truncate(owner, ownTables);
  for (const table of guardedTables) await owner.query(`alter table public.${table} enable trigger user`);
}

/** Removes read models, checkpoints, and the positions of consumers. */
export async function removeReadModels(owner: pg.Client): Promise<void> {
  const { rows } = await owner.query<{ name: string }>(
    `select c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname = 'public' and c.relkind = 'r'
        and c.relname in (select table_name from projections union select table_name from projection_checkpoints)`,
  );
  const names = rows.filter(({ name }) => !ownTables.includes(name)).map(({ name }) => `public."${name}"`);
  if (names.length > 0) await owner.query(`drop table ${names.join(', ')}`);
  await truncate(owner, consumerTables);
}

async function truncate(owner: pg.Client, tables: readonly string[]): Promise<void> {
  const { rows } = await owner.query<{ name: string }>(
    `select c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname = 'public' and c.relkind = 'r' and c.relname = any($1)`,
    [tables],
  );
  await owner.query(`truncate ${rows.map(({ name }) => `public."${name}"`).join(', ')}`);
}

export interface FillOptions {
  backup: CheckedBackup;
  /** The backup that contains the keys; the same as `backup` if that includes them. */
  keys: CheckedBackup;
  shredded: ReadonlySet<string>;
  /** The master key id of tombstones, whose column requires one. */
  masterKeyId: string;
}

/** Inserts the backup's rows; of shredded subjects only tombstones. Throws if a file was changed after it was checked. */
export async function fillTables(owner: pg.Client, { backup, keys, shredded, masterKeyId }: FillOptions): Promise<void> {
  await fill(owner, backup, backup === keys ? [...Object.keys(backedUpTables), keyTable] : Object.keys(backedUpTables), shredded);
  if (backup !== keys) await fill(owner, keys, [keyTable], shredded);
  await check(owner, backup.manifest);
  const subjects = [...shredded];
  for (let from = 0; from < subjects.length; from += TOMBSTONES_AT_A_TIME)
    await owner.query(
      `insert into data_keys (subject, version, kek_id, wrapped, shredded_at)
       select s, $2, $3, null, now() from unnest($1::text[]) s where not exists (select from data_keys k where k.subject = s)`,
      [subjects.slice(from, from + TOMBSTONES_AT_A_TIME), TOMBSTONE_VERSION, masterKeyId],
    );
}

async function fill(owner: pg.Client, { file, manifest }: CheckedBackup, wanted: string[], shredded: ReadonlySet<string>): Promise<void> {
  const parts = readArchive(file);
  let next = await parts.next();
  async function* rowsOf(table: string): AsyncGenerator<Buffer> {
    for (; next.done !== true && next.value.table === table; next = await parts.next()) yield next.value.content;
  }
  while (next.done !== true) {
    const { table } = next.value;
    const rows = table === keyTable ? withoutKeysOf(shredded, rowsOf(table)) : rowsOf(table);
    if (wanted.includes(table)) {
      const columns = (manifest.tables[table]?.columns ?? []).map((name) => `"${name}"`).join(', ');
      await copyIn(owner, `copy public.${table} (${columns}) from stdin`, rows);
    } else for await (const row of rows) void row;
  }
  if (JSON.stringify(next.value) !== JSON.stringify(manifest)) throw new Error(`${file} was changed while it was read`);
}

/** Yields the rows without the keys of shredded subjects, so that no destroyed key is ever inserted. */
async function* withoutKeysOf(shredded: ReadonlySet<string>, source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const rows = new KeyRows();
  for await (const piece of source) {
    const kept = rows.push(piece).filter(({ subject, isTombstone }) => isTombstone || !shredded.has(subject));
    if (kept.length > 0) yield Buffer.from(kept.map(({ line }) => `${line}\n`).join(''));
  }
}

async function check(owner: pg.Client, { tables, heads }: Manifest): Promise<void> {
  for (const table of Object.keys(backedUpTables)) {
    const { rows } = await owner.query<{ count: string }>(`select count(*) from public.${table}`);
    const said = String(tables[table]?.rows ?? 0);
    if (rows[0]?.count !== said) throw new Error(`${table} has ${rows[0]?.count} rows, and the backup ${said}`);
  }
  const { rows } = await owner.query<{ core: string; log: string }>(
    `select (select coalesce(max(position), 0) from es_event) as core, (select coalesce(max(position), 0) from es_log_event) as log`,
  );
  if (rows[0]?.core !== heads.core || rows[0].log !== heads.log || heads.core !== String(tables.es_event?.rows ?? 0))
    throw new Error('the log does not end where the backup says');
}
