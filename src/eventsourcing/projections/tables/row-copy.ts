import { isTime } from '../../../postgres/database/table.ts';
import type { Row } from './fold.ts';
import type { ProjectionTable } from '../projection.ts';

/** The initial size of a buffer, in bytes. */
const FIRST_BYTES = 64 * 1024;
/** The largest size of a string's character in UTF-8, in bytes. */
const BYTES_PER_CHARACTER = 3;

export function copyStatement(table: ProjectionTable, physical: string): string {
  const columns = Object.keys(table.columns).map((name) => `"${name}"`);
  return `copy "${physical}" (${columns.join(', ')}) from stdin`;
}

/**
 * Collects rows as the text of a COPY. Each value is written as a live write would write it to its column. A row becomes text as soon as it
 * is added, so that the waiting rows are bytes outside the heap, which the garbage collector need not copy.
 */
export class CopyText {
  private readonly writers: { name: string; write: (value: unknown) => string; end: string }[];
  private buffer = Buffer.alloc(0);
  /** The size of the collected text, in bytes. */
  bytes = 0;

  constructor(table: ProjectionTable) {
    const columns = Object.keys(table.columns);
    this.writers = columns.map((name, index) => ({ name, write: writerOf(table, name), end: index + 1 < columns.length ? '\t' : '\n' }));
  }

  add(row: Row): void {
    let line = '';
    for (const { name, write, end } of this.writers) {
      const value = row[name];
      line += value === null || value === undefined ? '\\N' : write(value);
      line += end;
    }
    const needed = this.bytes + line.length * BYTES_PER_CHARACTER;
    if (needed > this.buffer.length) this.grow(needed);
    this.bytes += this.buffer.write(line, this.bytes);
  }

  /** Returns the text of the rows since the last call. */
  drain(): Buffer {
    const text = this.buffer.subarray(0, this.bytes);
    this.buffer = Buffer.alloc(0);
    this.bytes = 0;
    return text;
  }

  private grow(needed: number): void {
    const larger = Buffer.allocUnsafe(Math.max(needed, this.buffer.length * 2, FIRST_BYTES));
    this.buffer.copy(larger, 0, 0, this.bytes);
    this.buffer = larger;
  }
}

function writerOf(table: ProjectionTable, column: string): (value: unknown) => string {
  if (table.columns[column]?.startsWith('json')) return (value) => escaped(JSON.stringify(value));
  // The fold has converted times into one format, in which nothing needs to be escaped.
  if (isTime(table, column)) return plain;
  return (value) => escaped(plain(value));
}

/** Returns the value as text, for a column that is not JSON. */
function plain(value: unknown): string {
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) return `{${value.map((each) => (Array.isArray(each) ? plain(each) : element(each))).join(',')}}`;
  return JSON.stringify(value);
}

function element(value: unknown): string {
  if (value === null || value === undefined) return 'NULL';
  return `"${plain(value).replaceAll(/["\\]/g, '\\$&')}"`;
}

const escapes: Record<string, string> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };

function escaped(text: string): string {
  return /[\\\n\r\t]/.test(text) ? text.replaceAll(/[\\\n\r\t]/g, (found) => escapes[found] as string) : text;
}
