/**
 * A table as it is declared once: its columns in SQL. The types of its rows (`WrittenRow`, `ReadRow`) and its TypeORM entity (`entityOf`)
 * follow from them. Declare it `as const satisfies Table`.
 */
export interface Table {
  /** The column that is the primary key: text, or bigint, which is text in rows. */
  key: string;
  /** Column name → PostgreSQL type with constraints, the key column included. The names are those of the row's members. */
  columns: Record<string, Column>;
}

/** The types of columns and of their values in written rows. A bigint is text, because a JavaScript number can't hold all of them. */
interface WrittenTypes {
  text: string;
  'text[]': string[];
  uuid: string;
  boolean: boolean;
  smallint: number;
  integer: number;
  bigint: string;
  timestamptz: string;
  'timestamptz(3)': string;
  /** A column of a type whose values may be anything is declared with `typed`. */
  json: unknown;
  jsonb: unknown;
  numeric: unknown;
}

/** The types of columns and of their values in rows that are read: times are dates. */
type ReadTypes = { [Name in keyof WrittenTypes]: Name extends `timestamptz${string}` ? Date : WrittenTypes[Name] };

type TypeName = keyof WrittenTypes;
type NotNull = `${TypeName} not null` | `${TypeName} ${string} not null`;

/** A PostgreSQL type with constraints, such as `text collate "C" not null`. */
export type Column = TypeName | `${TypeName} ${string}`;

declare const holds: unique symbol;
type Typed<Value> = NotNull & { readonly [holds]: Value };

/** Declares the values of a column more precisely than its SQL does: `typed<Scope[]>('json not null')`. */
export function typed<Value>(column: NotNull): Typed<Value> {
  return column as Typed<Value>;
}

type FirstWord<Text> = Text extends `${infer Word} ${string}` ? Word : Text;
type ValueOf<Sql, Types> =
  Sql extends Typed<infer Value> ? Value : Types[FirstWord<Sql> & keyof Types] | (Sql extends NotNull ? never : null);

/** A row as a projection writes it: times are ISO 8601 texts. */
export type WrittenRow<T extends Table> = { -readonly [Name in keyof T['columns']]: ValueOf<T['columns'][Name], WrittenTypes> };

/** A row as a query reads it: times are dates. */
export type ReadRow<T extends Table> = { -readonly [Name in keyof T['columns']]: ValueOf<T['columns'][Name], ReadTypes> };

export function isTime({ columns }: Table, column: string): boolean {
  return columns[column]?.startsWith('timestamptz') ?? false;
}

/** Returns the row as a query would read it after it was written. */
export function asRead<T extends Table>(table: T, row: WrittenRow<T>): ReadRow<T> {
  const members = Object.entries(row).map(([name, value]) => [
    name,
    isTime(table, name) && value !== null ? new Date(value as string) : value,
  ]);
  return Object.fromEntries(members) as ReadRow<T>;
}
