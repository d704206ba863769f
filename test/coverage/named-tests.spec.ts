import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../..');

/** Every file with tests of the project, by its path. */
const specs = new Map(
  ['src', 'test'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((path) => /\.(spec|contract)\.ts$/.test(path))
      .map((path) => [join(folder, path), readFileSync(join(root, folder, path), 'utf8')] as const),
  ),
);

/** Returns the contents of the files that a page means: by a path, the end of one, or that without the ending. */
const filesOf = (named: string) =>
  [...specs].filter(([path]) => [path, withoutEnding(path)].some((each) => `/${each}`.endsWith(`/${named}`))).map(([, content]) => content);
const withoutEnding = (path: string) => path.replace(/(\.(int|docker|e2e))?\.(spec|contract)\.ts$/, '');
const readPage = (page: string) => readFileSync(join(root, 'docs', page), 'utf8');

describe('docs/explanation/security.md', () => {
  it('names files with tests that exist', () => {
    const named = [...readPage('explanation/security.md').matchAll(/`([\w./-]+\.(?:spec|contract)\.ts)`/g)].map(
      ([, path]) => path as string,
    );
    expect(named.length).toBeGreaterThan(80);
    expect(named.filter((path) => filesOf(path).length === 0)).toEqual([]);
  });
});

describe('docs/reference/tests.md', () => {
  it('names tests that exist, in the files that it says', () => {
    const rows = readPage('reference/tests.md').matchAll(/^\| .+ \| `([^`]+)` \| “([^”]+)” \|$/gm);
    const named = [...rows].map(([, path = '', name = '']) => ({ path, name }));
    expect(named.length).toBeGreaterThan(350);
    expect(named.filter(({ path, name }) => !filesOf(path).some((content) => content.includes(name)))).toEqual([]);
  });
});
