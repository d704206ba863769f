import { isTime } from '../../../postgres/database/table.ts';
import type { Projection, ProjectionTable } from '../projection.ts';

const NAME = /^[a-z_][a-z0-9_]{0,40}$/;

/**
 * Throws if a name of the definition differs quoted and unquoted, or is so long that PostgreSQL truncates it, and if the key is not a
 * column.
 */
export function checkTable({ name, table }: Pick<Projection, 'name' | 'table'>): void {
  for (const each of [name, ...Object.keys(table.columns), ...Object.keys(table.indexes)])
    if (!NAME.test(each)) throw new Error(`projection ${name}: ${each} is not a plain lower-case name`);
  if (table.columns[table.key] === undefined) throw new Error(`projection ${name}: its key ${table.key} is not a column`);
}

/** Returns the statements that create the table under a physical name, with its indexes named after it. */
export function createStatements(table: ProjectionTable, physical: string): string[] {
  return [createBareStatement(table, physical), ...indexStatements(table, physical)];
}

/** Returns the statement that creates the table without key and indexes, which are cheaper to create after a bulk load. */
export function createBareStatement(table: ProjectionTable, physical: string, kind: 'table' | 'temp table' = 'table'): string {
  const columns = Object.entries(table.columns).map(([name, type]) => `"${name}" ${type}`);
  return `create ${kind} "${physical}" (${columns.join(', ')})`;
}

export function indexStatements(table: ProjectionTable, physical: string): string[] {
  return [
    `alter table "${physical}" add constraint "${physical}_pkey" primary key ("${table.key}")`,
    ...Object.entries(table.indexes).map(([suffix, text]) => `create index "${physical}_${suffix}" on "${physical}" ${text}`),
  ];
}

/** Returns the statements that give a table and its indexes another physical name. */
export function renameStatements(table: ProjectionTable, from: string, to: string): string[] {
  return [
    `alter table "${from}" rename to "${to}"`,
    ...['pkey', ...Object.keys(table.indexes)].map((suffix) => `alter index "${from}_${suffix}" rename to "${to}_${suffix}"`),
  ];
}

/**
 * Returns the statement that reads the rows with the keys $1, each as JSON in `row`. Times and bigints are written as `project` writes
 * them, so that a row read back equals the row in memory.
 */
export function loadStatement(table: ProjectionTable, physical: string): string {
  const columns = Object.keys(table.columns).map((name) =>
    isBigint(table, name)
      ? `"${name}"::text as "${name}"`
      : isTime(table, name)
        ? `to_char("${name}" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as "${name}"`
        : `"${name}"`,
  );
  return `select row_to_json(r) as row from (select ${columns.join(', ')} from "${physical}" where "${table.key}" = any($1::${keyType(table)}[])) r`;
}

/**
 * Returns one statement, and so one transaction and one round trip. It moves the checkpoint from $2 to $1 under the lease's epoch $3, and
 * only if it moved deletes the keys $5 and writes the rows $4 (JSON). Rows therefore need no guard of their own: a batch is applied once,
 * or not at all. Its result `moved` is 1 or 0. Its commit does not wait for the disk, since the log can repeat what a crash of the database
 * takes back (decisions/0043).
 */
export function writeStatement(table: ProjectionTable, physical: string): string {
  const columns = Object.keys(table.columns).map((name) => `"${name}"`);
  const changes = columns.filter((name) => name !== `"${table.key}"`).map((name) => `${name} = excluded.${name}`);
  return `
    with moved as (
      update projection_checkpoints set position = $1 where table_name = '${physical}' and position = $2 and epoch = $3 returning 1),
    removed as (delete from "${physical}" where "${table.key}" = any($5::${keyType(table)}[]) and exists (select from moved)),
    written as (
      insert into "${physical}" (${columns.join(', ')})
        select ${columns.join(', ')} from json_populate_recordset(null::"${physical}", $4::json) where exists (select from moved)
      on conflict ("${table.key}") do ${changes.length === 0 ? 'nothing' : `update set ${changes.join(', ')}`})
    select count(*)::int as moved, set_config('synchronous_commit', 'off', true) from moved`;
}

/**
 * Returns the statement that finds the first $1 keys for which the two tables hold different rows, and how they differ. Rows are compared
 * as text, byte by byte.
 */
export function differenceStatement(table: ProjectionTable, live: string, fresh: string): string {
  const key = `"${table.key}"`;
  const differing = Object.keys(table.columns).map(
    (name) => `case when l."${name}"::text is distinct from f."${name}"::text then '${name}' end`,
  );
  return `
    select coalesce(l.${key}, f.${key}) as key,
           case when l.${key} is null then 'missing' when f.${key} is null then 'unexpected' else 'different' end as kind,
           case when l.${key} is null or f.${key} is null then array[]::text[] else array_remove(array[${differing.join(', ')}], null) end as columns
      from "${live}" l full join "${fresh}" f on l.${key} = f.${key}
     where (l.${key} is null or f.${key} is null or (l.*)::text is distinct from (f.*)::text)
       ${retainedCondition(table)}
     order by 1 limit $1`;
}

/** Returns the conditions that exclude rows that are removed after a time, or together with what they belong to. */
function retainedCondition({ expires, belongs }: ProjectionTable): string {
  const either = (column: string) => `coalesce(l."${column}", f."${column}")`;
  return [
    expires && `and ${either(expires.column)} >= now() - interval '${expires.days} days'`,
    belongs && `and ${either(belongs.column)} in (${belongs.to})`,
  ]
    .filter((condition) => condition !== undefined)
    .join(' ');
}

/** A bigint is text in rows, because a JavaScript number can't represent all of them. */
function isBigint({ columns }: ProjectionTable, column: string): boolean {
  return columns[column]?.startsWith('bigint') ?? false;
}

function keyType(table: ProjectionTable): string {
  return isBigint(table, table.key) ? 'bigint' : 'text';
}
