import { closeSync, openSync, readSync } from 'node:fs';
import { resolve } from 'node:path';

const READ_BYTES = 256;

/**
 * Returns what a program that is there needs and does not find, so that it can't be run, as the rest of a sentence; null if that can't be told,
 * or if the program is named without a folder. A relative path begins at `folder`.
 * The supervisor tells the same in containers. Plain Node, because it also runs as it is from src and from dist.
 */
export function missingPart(program, folder) {
  const line = program.includes('/') ? firstBytes(resolve(folder, program)) : '';
  if (line.startsWith('\x7fELF'))
    return 'the loader that it was linked for is not there: link it statically, or for the C library of this machine';
  const [, interpreter] = /^#![ \t]*([^ \t\n]*)/.exec(line) ?? [];
  if (interpreter === undefined) return null;
  if (!interpreter.endsWith('\r')) return `the interpreter that its first line names is not there: ${interpreter}`;
  const name = interpreter.slice(0, -1);
  return `its first line ends in a carriage return, which counts as a part of its interpreter's name (${name}): end its lines with line feeds alone`;
}

function firstBytes(path) {
  const bytes = Buffer.alloc(READ_BYTES);
  let file;
  try {
    file = openSync(path, 'r');
    return bytes.toString('latin1', 0, readSync(file, bytes));
  } catch {
    return '';
  } finally {
    if (file !== undefined) closeSync(file);
  }
}
