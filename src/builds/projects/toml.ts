import { parse } from 'smol-toml';

import { RuntimeRefused } from '../../runtime/runtime.errors.ts';

export type Table = Record<string, unknown>;

/** Reads a file in TOML. Throws `RuntimeRefused` if it is none. */
export function tomlOf(text: string, name: string): Table {
  try {
    return parse(text);
  } catch {
    throw new RuntimeRefused(`The file ${name} is not valid TOML.`);
  }
}

/** Returns the table of that name; an empty one if there is none. */
export function tableIn(table: Table, name: string): Table {
  const value = Object.hasOwn(table, name) ? table[name] : undefined;
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Table) : {};
}

/** Returns the texts of a list; a text alone counts as a list of one. */
export function textsIn(value: unknown): string[] {
  return (Array.isArray(value) ? value : [value]).filter((item) => typeof item === 'string');
}

/** Returns whether a table within the values has one of the keys, however deep it is. Tables may be nested deeper than a function can call itself. */
export function hasKey(values: unknown[], keys: ReadonlySet<string>): boolean {
  const left = [...values];
  while (left.length > 0) {
    const value = left.pop();
    if (typeof value !== 'object' || value === null) continue;
    for (const [key, inner] of Object.entries(value)) {
      if (keys.has(key)) return true;
      left.push(inner);
    }
  }
  return false;
}
