import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { FetchedRepositories } from '../../../test/support/fetched-repositories.ts';
import type { GitServer } from '../../../test/support/git-server.ts';

let bed: FetchedRepositories;
let server: GitServer;
let folder: string;

beforeEach(async () => {
  bed = await FetchedRepositories.open();
  ({ server, folder } = bed);
  mkdirSync(join(folder, 'outside'));
  for (const name of ['a', 'lib', 'other']) server.commit(name, { file: 'x' });
});

afterEach(() => bed.close());

const fetchOf = (name: string) => bed.fetch(server.url(name));
const refusal = (name: string) => bed.refusal(server.url(name));

type Entry = [mode: '100644' | '120000' | '160000' | '040000', file: string, content: string];

/** Commits a tree of just these entries, of which Git would write none that is odd. A link has its target as its content. */
function commitRaw(name: string, entries: Entry[]): string {
  const hash = (mode: string, content: string) => (mode === '160000' || mode === '040000' ? content : server.blob(name, content));
  return server.commitTree(
    name,
    server.rawTree(
      name,
      entries.map(([mode, file, content]) => ({ mode: mode.replace(/^0/, ''), file, hash: hash(mode, content) })),
    ),
  );
}

const moduleOf = (path: string, name: string): string => `[submodule "${path}"]\n\tpath = ${path}\n\turl = ../${name}.git\n`;

describe('a repository from a server that checks no names', () => {
  it('has nothing of its submodules written elsewhere by links that it puts into their folders', async () => {
    // Two submodules that share the link `l` of the commit: the first makes a link by it that leads out, and the second a file by that.
    const first = commitRaw('lib', [['120000', 'l/a/l/a/l/a/l/escape', '../../outside']]);
    const second = commitRaw('other', [['100644', 'l/escape/planted', 'x']]);
    commitRaw('a', [
      ['100644', '.gitmodules', moduleOf('a', 'lib') + moduleOf('b', 'other')],
      ['160000', 'a', first],
      ['120000', 'a/l', '..'],
      ['160000', 'b', second],
      ['120000', 'b/l', '..'],
    ]);
    expect(await refusal('a')).toBe('RepositoryRefused: The repository has a submodule that has no folder of its own: "a".');
    expect(readdirSync(join(folder, 'outside'))).toEqual([]);
    expect(readdirSync(join(folder, 'one/files')).toSorted()).toEqual(['.gitmodules', 'a', 'b']);
  });

  it.each<[string, Entry[]]>([
    ['a file', [['100644', 'lib/own', 'x']]],
    ['a link', [['120000', 'lib/own', 'file']]],
  ])('is refused if it has %s in the folder of a submodule', async (_, within) => {
    const lib = server.commit('lib', { planted: 'x' });
    commitRaw('a', [['100644', '.gitmodules', moduleOf('lib', 'lib')], ['160000', 'lib', lib], ...within]);
    expect(await refusal('a')).toContain('a submodule that has no folder of its own: "lib"');
    expect(readdirSync(join(folder, 'one/files/lib'))).toEqual(['own']);
  });

  it('has nothing written through its own links', async () => {
    const inner = server.tree('a', { planted: 'x' });
    const held = server.tree('a', { held: 'x' });
    const link: Entry = ['120000', 'l', 'elsewhere'];
    const elsewhere: Entry = ['040000', 'elsewhere', held];
    const others: Entry[] = [
      ['120000', 'l/planted', 'x'],
      ['100644', 'l/planted', 'x'],
      ['040000', 'l/planted', inner],
      ['040000', 'l', inner],
      ['160000', 'l', server.commit('lib', { file: 'x' })],
    ];
    for (const other of others) {
      for (const entries of [
        [elsewhere, link, other],
        [other, link, elsewhere],
      ]) {
        commitRaw('a', entries);
        expect(await refusal('a')).toMatch(/a file name that is refused: "l\/planted"|two files whose names are one here: "l"/);
        const made = readdirSync(join(folder, 'one/files'));
        if (made.includes('elsewhere')) expect(readdirSync(join(folder, 'one/files/elsewhere'))).toEqual(['held']);
      }
    }
  });

  it.each<[string, (inner: string) => Entry[]]>([
    [
      'two files',
      () => [
        ['100644', 'd', 'x'],
        ['100644', 'd', 'y'],
      ],
    ],
    [
      'two links',
      () => [
        ['120000', 'd', 'x'],
        ['120000', 'd', 'y'],
      ],
    ],
    [
      'two folders',
      (inner) => [
        ['040000', 'd', inner],
        ['040000', 'd', inner],
      ],
    ],
    [
      'a folder and a submodule',
      (inner) => [
        ['040000', 'd', inner],
        ['160000', 'd', '1'.repeat(40)],
      ],
    ],
    [
      'a submodule and a link',
      () => [
        ['160000', 'd', '1'.repeat(40)],
        ['120000', 'd', 'x'],
      ],
    ],
  ])('is refused if it has %s of one name', async (_, entriesOf) => {
    const entries = entriesOf(server.tree('a', { file: 'x' }));
    commitRaw('a', entries);
    expect(await refusal('a')).toContain('two files whose names are one here: "d"');
    commitRaw('a', entries.toReversed());
    expect(await refusal('a')).toContain('two files whose names are one here: "d"');
  });

  it('is refused if a name in a folder of it has a slash', async () => {
    commitRaw('a', [['100644', 'd/file', 'x']]);
    expect(await refusal('a')).toContain('a file name that is refused: "d/file"');
  });
});

it('reads no settings from files of this machine that the commit includes', async () => {
  const lib = server.commit('lib', { file: 'x' });
  const own = join(folder, 'outside', 'own');
  writeFileSync(own, `${moduleOf('leak', 'lib')}[lfs]\n\turl = http://${server.host}/elsewhere\n`);
  const include = `[include]\n\tpath = ${own}\n`;
  const pointer = server.lfs.pointerTo('the model');
  server.commit('a', { '.gitmodules': include, leak: { submodule: lib }, '.lfsconfig': include, 'model.bin': pointer });
  const { directory } = await fetchOf('a');
  expect(readdirSync(join(directory, 'leak'))).toEqual([]);
  expect(server.lfs.requests[0]).toBe('/a.git/info/lfs/objects/batch');
});
