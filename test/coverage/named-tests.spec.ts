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

/** Returns the contents of the files that a page means by a path: the whole path, or the end of it. */
const filesOf = (named: string) =>
  [...specs].filter(([path]) => path === named || path.endsWith(`/${named}`)).map(([, content]) => content);
const readPage = (page: string) => readFileSync(join(root, 'docs', page), 'utf8');

describe.each([
  ['explanation/security.md', 80],
  ['reference/tests.md', 380],
])('docs/%s', (page, least) => {
  it('names files with tests that exist', () => {
    const named = [...readPage(page).matchAll(/`([\w./-]+\.(?:spec|contract)\.ts)`/g)].map(([, path]) => path as string);
    expect(named.length).toBeGreaterThanOrEqual(least);
    expect(named.filter((path) => filesOf(path).length === 0)).toEqual([]);
  });
});

describe('docs/reference/tests.md', () => {
  it('names tests that exist, in the files that it says', () => {
    const named = [...readPage('reference/tests.md').matchAll(/\| `([^`]+)`\s*\| “([^”]+)”\s*\|/g)].map(([, path = '', name = '']) => ({
      path,
      name,
    }));
    expect(named.length).toBeGreaterThanOrEqual(380);
    expect(named.filter(({ path, name }) => !filesOf(path).some((content) => content.includes(name)))).toEqual([]);
  });
});
