import { dirname, join } from 'node:path/posix';

/** The texts of files by their paths from the root. */
export type Sources = ReadonlyMap<string, string>;

/** Maps each file to what it imports when it runs: other files by their paths, and packages by their names. */
export type Imports = ReadonlyMap<string, readonly string[]>;

const statement = /^\s*(?:import|export)\s+(?!type\b)(?:([^'";]*?)\s*from\s+)?'([^']+)'|\bimport\('([^']+)'\)/gm;

export function importsOf(sources: Sources): Imports {
  return new Map([...sources].map(([path, text]) => [path, targetsOf(path, text)]));
}

/** Returns what the file imports. Imports of types alone are left out, since they are gone when it runs. */
function targetsOf(path: string, text: string): string[] {
  return [...text.matchAll(statement)].flatMap(([, names = '', from, loaded]) => {
    const target = from ?? loaded ?? '';
    if (target.startsWith('node:') || areTypes(names)) return [];
    return target.startsWith('.') ? join(dirname(path), target) : packageOf(target);
  });
}

function areTypes(names: string): boolean {
  const [, listed] = /^\{([^}]*)\}$/s.exec(names) ?? [];
  return listed?.split(',').every((name) => name.trim() === '' || name.trim().startsWith('type ')) === true;
}

function packageOf(target: string): string {
  return target
    .split('/')
    .slice(0, target.startsWith('@') ? 2 : 1)
    .join('/');
}

/** Maps each file and package that the file reaches to the shortest chain of imports that leads there. */
export function reachedFrom(path: string, imports: Imports): ReadonlyMap<string, readonly string[]> {
  const chains = new Map<string, readonly string[]>([[path, [path]]]);
  // A map that grows meanwhile is walked to its end.
  for (const [file, chain] of chains)
    for (const target of imports.get(file) ?? []) if (!chains.has(target)) chains.set(target, [...chain, target]);
  return chains;
}
