import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';

import { headingsOf, LINE_MAX, linksOf, tableRowsOf } from './markdown.ts';

const root = resolve(import.meta.dirname, '../..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');
const pagesIn = (folder: string) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.md'))
    .map((path) => join(folder, path));

const pages = pagesIn('docs');
/** The pages elsewhere whose links lead into docs/. */
const others = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'SECURITY.md', 'eventstore/README.md'];
const COLUMNS_MAX = 4;

describe('the pages of docs/', () => {
  it(`have no line of more than ${LINE_MAX} characters`, () => {
    const long = pages.flatMap((page) =>
      read(page)
        .split('\n')
        .flatMap((line, index) => (line.length > LINE_MAX ? [`${page}:${index + 1}`] : [])),
    );
    expect(long).toEqual([]);
  });

  it(`have no table of more than ${COLUMNS_MAX} columns`, () => {
    const wide = pages.flatMap((page) =>
      tableRowsOf(read(page)).flatMap(({ line, cells }) => (cells > COLUMNS_MAX ? [`${page}:${line} has ${cells}`] : [])),
    );
    expect(wide).toEqual([]);
  });

  it('link to files and headings that exist, as do the pages beside docs/', () => {
    const broken = [...pages, ...others].flatMap((page) =>
      linksOf(read(page)).flatMap(({ path, anchor }) => {
        const target = path === '' ? page : relative(root, resolve(root, dirname(page), path));
        if (!existsSync(join(root, target))) return [`${page} links to ${target}, which does not exist`];
        const isHeading = anchor === null || !target.endsWith('.md') || headingsOf(read(target)).includes(anchor);
        return isHeading ? [] : [`${page} links to #${anchor} of ${target}, which has no such heading`];
      }),
    );
    expect(broken).toEqual([]);
  });

  it('are all linked from docs/README.md', () => {
    const linked = new Set(linksOf(read('docs/README.md')).map(({ path }) => join('docs', path)));
    const listed = pages.filter((page) => page !== 'docs/README.md' && !page.startsWith('docs/explanation/decisions/'));
    expect(listed.filter((page) => !linked.has(page))).toEqual([]);
  });
});
