import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { regularExpressionsIn, slowText } from './regular-expressions.ts';

const source = fileURLToPath(new URL('../../src/', import.meta.url));
const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter(
  (path) => /\.(ts|mjs)$/.test(path) && !path.endsWith('.spec.ts'),
);
/** The files with a regular expression that is made of a text which the service gives them. */
const madeElsewhere = ['eventsourcing/event-store/eventstoredb/names.ts', 'runtime/local/supervisor.mjs'];

describe('a regular expression of the service', () => {
  it('takes no time that grows by the square of the text that it reads, since most texts are tenants’ or strangers’', () => {
    const slow = files.flatMap((path) =>
      regularExpressionsIn(readFileSync(join(source, path), 'utf8'), path).flatMap((found) => {
        if (found.source === null) return madeElsewhere.includes(path) ? [] : [`${path}:${found.line}: not made of texts of the file`];
        const text = slowText(found);
        return text === null ? [] : [`${path}:${found.line}: /${found.source}/${found.flags} on ${text}`];
      }),
    );
    expect(slow).toEqual([]);
  });

  it.each([
    ['/^\\s*#/m', 'is tried anew at each of many line ends'],
    ['/ +$/', 'is tried anew at each of many spaces'],
    ['/^a:[ \\t]*(.*?)[ \\t]*$/', 'splits many spaces in each possible way'],
    ['/^(a+)+$/', 'splits many letters in each possible way'],
    ['RegExp(`^${word}=${word}$`)', 'hides in constants'],
  ])('%s would be found, because it %s', (expression) => {
    const [found] = regularExpressionsIn(`const word = '(?:a+)+';\nconst x = ${expression};`, 'a.ts');
    expect(found).toMatchObject({ line: 2, source: expect.any(String) as string });
    expect(slowText(found as { source: string; flags: string })).toMatch(/^many of/);
  });

  it('has its text in its file', () => {
    expect(regularExpressionsIn('const x = new RegExp(given);', 'a.ts')).toEqual([{ line: 1, source: null }]);
    expect(regularExpressionsIn("const x = new RegExp('a' + `b`, 'g');", 'a.ts')).toEqual([{ line: 1, source: 'ab', flags: 'g' }]);
  });
});
