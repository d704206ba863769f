import { readdirSync, readFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../..');

/** Every file with tests of the project, by its path. */
const specs = new Map(
  ['src', 'test'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((path) => /\.(spec|contract)\.ts$/.test(path))
      .map((path) => [join(folder, path), readFileSync(join(root, folder, path), 'utf8')] as const),
  ),
);

describe.each(['explanation/security.md', 'reference/api.md'])('docs/%s', (page) => {
  const text = readFileSync(join(root, 'docs', page), 'utf8');

  it('names files with tests that exist', () => {
    const known = new Set([...specs.keys()].flatMap((path) => [path, basename(path)]));
    const named = [...text.matchAll(/`([\w./-]+\.(?:spec|contract)\.ts)`/g)].map(([, path]) => path as string);
    expect(named.length).toBeGreaterThan(50);
    expect(named.filter((path) => !known.has(path))).toEqual([]);
  });

  it('names tests that exist, in the files that it says', () => {
    const named = [...text.matchAll(/\| `([^`]+)`\s*\| “([^”]+)”\s*\|/g)].map(([, path = '', name = '']) => ({ path, name }));
    expect(named.length).toBeGreaterThan(40);
    expect(named.filter(({ path, name }) => specs.get(path)?.includes(name) !== true)).toEqual([]);
  });
});
