import { type Client, Pool } from 'pg';

import type { Statement } from './statements.ts';

/** The number of rows below which a table may be scanned whole. */
const SMALL_ROWS = 1_000;
/** The tables that have few rows, however many agents there are. */
const few = [
  'mooring_migration',
  'projections',
  'projection_checkpoints',
  'projection_rebuilds',
  'consumer_leases',
  'installation',
  'es_log_retention',
];
const uuid = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}';
/** The share of copied rows, one in this many, that keep the ids of the original row. */
const OWN_EVERY = 50;
/** Sessions that fill tables at the same time. */
const FILLERS = 2;

interface Column {
  table: string;
  name: string;
  type: string;
  /** The value is true if an index makes the column unique. */
  is_unique: boolean;
}

/**
 * Copies the existing rows, with their own ids and times, until every table has that many, and updates the planner's statistics. Indexes that
 * are not unique are created when the rows are there.
 */
export async function fillTables(url: string, rows: number): Promise<void> {
  const sessions = new Pool({ connectionString: url, max: FILLERS, options: '-c maintenance_work_mem=256MB' });
  try {
    const { rows: columns } = await sessions.query<Column>(
      `
      select c.relname as table, a.attname as name, format_type(a.atttypid, null) as type,
             exists (select from pg_index i where i.indrelid = c.oid and i.indisunique and i.indnkeyatts = 1 and i.indkey[0] = a.attnum) as is_unique
        from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
       where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and c.relname <> all ($1) order by 1, a.attnum`,
      [few],
    );
    const left = [...new Set(columns.map(({ table }) => table))];
    const filler = async () => {
      for (let table = left.shift(); table !== undefined; table = left.shift())
        await fillTable(
          sessions,
          table,
          columns.filter((column) => column.table === table),
          rows,
        );
    };
    await Promise.all(Array.from({ length: FILLERS }, filler));
    for (const table of few) await sessions.query(`vacuum analyze public."${table}"`);
  } finally {
    await sessions.end();
  }
}

async function fillTable(sessions: Pool, table: string, columns: Column[], rows: number): Promise<void> {
  const { rows: indexes } = await sessions.query<{ name: string; definition: string }>(
    `select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as definition from pg_index
      where indrelid = $1::regclass and not indisunique`,
    [`public."${table}"`],
  );
  for (const { name } of indexes) await sessions.query(`drop index ${name}`);
  // The text on both sides of an id is found once in each existing row, and not in each copy.
  const sides = columns.filter(({ type }) => type === 'text').flatMap(({ name }) => [side(name, 1), side(name, 2)]);
  await sessions.query(
    `with standing as materialized (
       select ${['t.*', ...sides, 'row_number() over () - 1 as place'].join(', ')} from public."${table}" t)
     insert into public."${table}" (${columns.map(({ name }) => `"${name}"`).join(', ')})
       select ${columns.map(valueOf).join(', ')}
         from (select n, n % (select count(*) from standing) as place from generate_series(1, ${rows}) n where exists (select from standing)) numbers
         join standing t using (place)
     on conflict do nothing`,
  );
  for (const { definition } of indexes) await sessions.query(definition);
  await sessions.query(`vacuum analyze public."${table}"`);
}

/** The text before (1) or after (2) the first id in the column; null where there is none. */
function side(name: string, which: 1 | 2): string {
  return `(regexp_match(t."${name}", '^(.*?)${uuid}(.*)$', 's'))[${which}] as "${name} ${which}"`;
}

function valueOf({ name, type, is_unique }: Column): string {
  const old = `t."${name}"`;
  if (type === 'uuid') return is_unique ? 'gen_random_uuid()' : `case when n % ${OWN_EVERY} = 0 then ${old} else gen_random_uuid() end`;
  if (type.startsWith('timestamp')) return `${old} - n * interval '1 second'`;
  if (is_unique && type === 'bigint') return `1000000 + n`;
  if (type !== 'text') return old;
  const other = `t."${name} 1" || gen_random_uuid() || t."${name} 2"`;
  if (is_unique) return `coalesce(${other}, ${old} || '-' || n)`;
  return `case when n % ${OWN_EVERY} = 0 then ${old} else coalesce(${other}, ${old}) end`;
}

interface Plan {
  'Node Type': string;
  'Relation Name'?: string;
  'Index Name'?: string;
  Plans?: Plan[];
}

/** The way in which a statement reads a table that is not small. */
export interface TableRead {
  table: string;
  /** The planner's name for it, with the index if there is one: `Index Scan agents_v2_pkey`. */
  how: string;
}

/** Returns the tables that the plan of the statement reads. */
export async function readsOf(client: Client, { text, values }: Statement): Promise<TableRead[]> {
  const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: Plan }] }>({ text: `explain (format json) ${text}`, values });
  const { rows: sizes } = await client.query<{ name: string }>('select relname as name from pg_class where reltuples > $1', [SMALL_ROWS]);
  const large = new Set(sizes.map(({ name }) => name));
  const found: TableRead[] = [];
  const look = (plan: Plan) => {
    const { 'Relation Name': table, 'Index Name': index, 'Node Type': node } = plan;
    const how = index === undefined ? node : `${node} ${index}`;
    if (table !== undefined && large.has(table)) found.push({ table, how });
    plan.Plans?.forEach(look);
  };
  rows[0]?.['QUERY PLAN'].forEach(({ Plan: plan }) => look(plan));
  return found;
}

export function isWhole({ how }: TableRead): boolean {
  return how === 'Seq Scan';
}
