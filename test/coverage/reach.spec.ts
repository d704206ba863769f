import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

import type { Sources } from './imports.ts';
import { Reach } from './reach.ts';
import { reachCeilings } from './reach-ceilings.ts';

const root = resolve(import.meta.dirname, '../..');
const sources: Sources = new Map(
  readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
    .map((path) => join('src', path))
    .filter((path) => /\.m?ts$/.test(path) && !path.endsWith('.spec.ts'))
    .map((path) => [path, readFileSync(join(root, path), 'utf8')]),
);

/** The number of files by which a controller may reach fewer than its ceiling, so that not every change has to lower that. */
const SLACK_FILES = 3;

describe('the files that a controller reaches', () => {
  const reach = new Reach(sources);
  const controllers = [...sources.keys()].filter((path) => path.endsWith('.controller.ts')).sort();

  it('have a ceiling for every controller', () => {
    expect(Object.keys(reachCeilings).sort()).toEqual(controllers);
  });

  it.each(controllers)('of %s are as many as its ceiling says, or a few less', (path) => {
    const chains = reach.from(path);
    const ceiling = reachCeilings[path] ?? 0;
    // The chains say which imports a file too many comes from.
    const found = chains.size > ceiling ? [...chains.values()].map((chain) => chain.slice(1).join(' > ')) : [];
    expect(found).toEqual([]);
    // Fewer files are what is wanted, and the ceiling is lowered to them.
    expect(chains.size).toBeGreaterThanOrEqual(ceiling - SLACK_FILES);
  });
});

describe('the reach of a file', () => {
  const reached = (files: Record<string, string>) => [...new Reach(new Map(Object.entries(files))).from('a.ts').keys()];

  it('is what it imports, and what that imports', () => {
    const files = { 'a.ts': "import { b } from './b/b.ts';\n", 'b/b.ts': "import '../c.ts';\nexport const b = 1;\n", 'c.ts': 'c();\n' };
    expect(reached({ ...files, 'd.ts': 'd();\n' })).toEqual(['b/b.ts', 'c.ts']);
  });

  it('includes what is imported for its type alone, or when it is used', () => {
    const types = { 'b.ts': 'export interface B {}\n', 'c.ts': 'export type C = 1;\n', 'd.ts': 'export class D {}\n' };
    const text = "import type { B } from './b.ts';\nlet c: import('./c.ts').C;\nconst { D } = await import('./d.ts');\n";
    expect(reached({ 'a.ts': text, ...types })).toEqual(['b.ts', 'c.ts', 'd.ts']);
  });

  it('follows a name to the file that declares it, and not what else is exported beside it', () => {
    const files = {
      'a.ts': "import { type b } from './index.ts';\n",
      'index.ts': "export { one as b } from './again.ts';\nexport { c } from './c.ts';\n",
      'again.ts': "export * from './d.ts';\nexport * from './b.ts';\n",
      'b.ts': 'export function one() {}\n',
      'c.ts': 'export const c = 1;\n',
      'd.ts': 'export const d = 1;\n',
    };
    expect(reached(files)).toEqual(['b.ts']);
  });

  it('does not include packages, and files that are not there', () => {
    expect(reached({ 'a.ts': "import { b } from 'b';\nimport { readFile } from 'node:fs';\nimport c from './c.json';\n" })).toEqual([]);
  });
});
