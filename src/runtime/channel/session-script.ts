import type { ExecRequest } from '../runtime.ts';
import { RuntimeRefused } from '../runtime.errors.ts';

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * Returns a simple command that runs the request's command in the shell that reads it: its folder persists, and so do the effects of a
 * shell text; the variables belong to this command alone. It is evaluated by `command`, so that a fault in it does not end the shell.
 */
export function sessionScript({ argv, environment = {} }: ExecRequest, folder: string | null): string {
  const variables = Object.entries(environment).map(([name, value]) => {
    if (!VARIABLE.test(name)) throw new RuntimeRefused('The name of a variable in a session has letters, digits and "_" only.');
    return `${name}=${quoted(value)} `;
  });
  const change = folder === null ? '' : `CDPATH= command cd -- ${quoted(folder)} || return 126\n`;
  return `${change}${variables.join('')}command eval ${quoted(textOf(argv))}`;
}

function textOf(argv: readonly string[]): string {
  const [shell, option, text] = argv;
  if (argv.length === 3 && shell === '/bin/sh' && option === '-c') return text ?? '';
  return argv.map(quoted).join(' ');
}

function quoted(word: string): string {
  if (word.includes('\0')) throw new RuntimeRefused("A command can't contain a NUL byte.");
  return `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
