import type { Client } from 'pg';

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

interface Column {
  table: string;
  name: string;
  type: string;
  /** The value is true if an index makes the column unique. */
  is_unique: boolean;
}

/** Copies the existing rows, with their own ids and times, until every table has that many, and then updates the planner's statistics. */
export async function fillTables(client: Client, rows: number): Promise<void> {
  const { rows: columns } = await client.query<Column>(
    `
    select c.relname as table, a.attname as name, format_type(a.atttypid, null) as type,
           exists (select from pg_index i where i.indrelid = c.oid and i.indisunique and i.indnkeyatts = 1 and i.indkey[0] = a.attnum) as is_unique
      from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
     where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and c.relname <> all ($1) order by 1, a.attnum`,
    [few],
  );
  for (const table of new Set(columns.map((column) => column.table))) {
    const own = columns.filter((column) => column.table === table);
    const names = own.map(({ name }) => `"${name}"`).join(', ');
    const copies = `(select t.*, row_number() over () as place, count(*) over () as standing from public."${table}" t) t, generate_series(1, ${rows}) n`;
    await client.query(
      `insert into public."${table}" (${names}) select ${own.map(valueOf).join(', ')} from ${copies} where n % t.standing = t.place - 1 on conflict do nothing`,
    );
  }
  await client.query('vacuum analyze');
}

function valueOf({ name, type, is_unique }: Column): string {
  const old = `t."${name}"`;
  if (type === 'uuid') return is_unique ? 'gen_random_uuid()' : `case when n % ${OWN_EVERY} = 0 then ${old} else gen_random_uuid() end`;
  if (type.startsWith('timestamp')) return `${old} - n * interval '1 second'`;
  if (is_unique && type === 'bigint') return `1000000 + n`;
  if (type !== 'text') return old;
  const other = `regexp_replace(${old}, '${uuid}', gen_random_uuid()::text)`;
  if (is_unique) return `case when ${old} ~ '${uuid}' then ${other} else ${old} || '-' || n end`;
  return `case when n % ${OWN_EVERY} = 0 then ${old} else ${other} end`;
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
