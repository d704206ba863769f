import type { Row } from './fold.ts';
import type { ProjectionTable } from './projection.ts';

export function copyStatement(table: ProjectionTable, physical: string): string {
  const columns = Object.keys(table.columns).map((name) => `"${name}"`);
  return `copy "${physical}" (${columns.join(', ')}) from stdin`;
}

/** The rows as lines of a COPY: each value as the live write's JSON would give it to its column. */
export function copyLines(table: ProjectionTable, rows: readonly Row[]): string {
  const writers = Object.entries(table.columns).map(([name, type]) => ({
    name,
    write: /^\s*jsonb?\b/i.test(type) ? JSON.stringify : plain,
  }));
  const lines = rows.map((row) =>
    writers
      .map(({ name, write }) => {
        const value = row[name];
        return value === null || value === undefined ? '\\N' : escaped(write(value));
      })
      .join('\t'),
  );
  return `${lines.join('\n')}\n`;
}

/** Of a column that is no JSON. */
function plain(value: unknown): string {
  if (Array.isArray(value)) return `{${value.map((each) => (Array.isArray(each) ? plain(each) : element(each))).join(',')}}`;
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function element(value: unknown): string {
  if (value === null || value === undefined) return 'NULL';
  return `"${plain(value).replaceAll(/["\\]/g, '\\$&')}"`;
}

const escapes: Record<string, string> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };

function escaped(text: string): string {
  return /[\\\n\r\t]/.test(text) ? text.replaceAll(/[\\\n\r\t]/g, (found) => escapes[found] as string) : text;
}
