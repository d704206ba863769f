import { readdirSync, readFileSync } from 'node:fs';
import { lstat, stat } from 'node:fs/promises';
import { join } from 'node:path';

import { FetchedRepositories } from '../../../test/support/fetched-repositories.ts';
import { GitServer } from '../../../test/support/git-server.ts';
import type { FetchRequest } from './fetch-repository.ts';

const MIB = 1024 * 1024;

let bed: FetchedRepositories;
let server: GitServer;
let folder: string;

beforeEach(async () => {
  bed = await FetchedRepositories.open();
  ({ server, folder } = bed);
});

afterEach(() => bed.close());

const fetchOf = (url: string, more?: Partial<FetchRequest>) => bed.fetch(url, more);
const refusal = (url: string, more?: Partial<FetchRequest>) => bed.refusal(url, more);

/** Returns the text of `.gitmodules` for submodules by their paths. */
const modules = (urls: Record<string, string>) =>
  Object.entries(urls)
    .map(([path, url]) => `[submodule "${path}"]\n\tpath = ${path}\n\turl = ${url}\n`)
    .join('');

describe('fetching a repository with submodules or files in Git LFS', () => {
  it('fetches submodules on the same host, those of submodules too, and names the others', async () => {
    const deep = server.commit('deep', { 'deep.txt': 'deep' });
    server.commit('deep', { 'deep.txt': 'newer' });
    const lib = server.commit('team/lib', {
      'lib.txt': 'lib',
      '.gitmodules': modules({ inner: '../../deep' }),
      inner: { submodule: deep },
    });
    const elsewhere = { link: 'https://git.example.com/x', 'by-path': `file://${server.path('deep')}`, option: '--upload-pack=touch x' };
    server.commit('a', {
      '.gitmodules': modules({ 'libs/lib': './../team/lib.git', 'libs/again': server.url('team/lib'), ...elsewhere }),
      'libs/lib': { submodule: lib },
      'libs/again': { submodule: lib },
      link: { submodule: lib },
      'by-path': { submodule: deep },
      option: { submodule: deep },
    });
    const { directory, notes } = await fetchOf(server.url('a'));
    for (const each of ['lib', 'again']) {
      expect(readFileSync(join(directory, 'libs', each, 'lib.txt'), 'utf8')).toBe('lib');
      expect(readFileSync(join(directory, 'libs', each, 'inner/deep.txt'), 'utf8')).toBe('deep');
    }
    expect(readdirSync(join(directory, 'link'))).toEqual([]);
    expect(readdirSync(join(folder, 'one'))).toEqual(['files']);
    expect(notes).toEqual([
      'Submodules are not fetched, so that their folders are empty: "link", "by-path", "option"',
      `Fetched the submodule "libs/lib" at the commit ${lib}`,
      `Fetched the submodule "inner" at the commit ${deep}`,
      `Fetched the submodule "libs/again" at the commit ${lib}`,
      `Fetched the submodule "inner" at the commit ${deep}`,
    ]);
  });

  it('is refused with the submodule’s path if that can’t be fetched', async () => {
    const commit = server.commit('a', { file: 'x' });
    server.commit('a', { '.gitmodules': modules({ lib: '../nowhere' }), lib: { submodule: commit } });
    expect(await refusal(server.url('a'))).toContain('The submodule "lib" could not be fetched. The repository was not found');
    server.commit('b', { '.gitmodules': modules({ lib: '../a' }), lib: { submodule: '1'.repeat(40) } });
    expect(await refusal(server.url('b'))).toContain('The submodule "lib" could not be fetched. Its repository has no commit 111');
  });

  it('fetches submodules within the limits of the repository, 50 at most and 5 deep', async () => {
    const many = Object.fromEntries(Array.from({ length: 51 }, (_, at) => [`lib${at}`, '../small']));
    const small = server.commit('small', { file: 'x' });
    const links = Object.fromEntries(Object.keys(many).map((path) => [path, { submodule: small }]));
    server.commit('a', { '.gitmodules': modules(many), ...links });
    expect(await refusal(server.url('a'))).toContain('more than 50 submodules');
    let below = server.commit('level0', { file: 'x' });
    for (let level = 1; level <= 6; level++)
      below = server.commit(`level${level}`, { '.gitmodules': modules({ below: `../level${level - 1}` }), below: { submodule: below } });
    expect((await fetchOf(server.url('level5'))).notes).toHaveLength(5);
    expect(await refusal(server.url('level6'))).toContain('more than 5 deep');
    const half = server.commit('half', { zeros: Buffer.alloc(40 * MIB) });
    server.commit('whole', { zeros: Buffer.alloc(40 * MIB, 1), '.gitmodules': modules({ half: '../half' }), half: { submodule: half } });
    expect(await refusal(server.url('whole'))).toContain('more than 64 MiB');
  });

  it('puts the contents of files in Git LFS in their places, in submodules too', async () => {
    const model = server.lfs.pointerTo('the model');
    const lib = server.commit('lib', { 'data.bin': server.lfs.pointerTo('the data') });
    const files = {
      'models/a.bin': model,
      'b.bin': { executable: model },
      '.gitmodules': modules({ lib: '../lib' }),
      lib: { submodule: lib },
    };
    server.time = '2001-02-03T04:05:06Z';
    server.commit('a', files);
    const { directory, notes } = await fetchOf(server.url('a'));
    for (const name of ['models/a.bin', 'b.bin']) {
      expect(readFileSync(join(directory, name), 'utf8')).toBe('the model');
      expect((await lstat(join(directory, name))).mtime.toISOString()).toBe('2001-02-03T04:05:06.000Z');
    }
    expect((await stat(join(directory, 'b.bin'))).mode & 0o777).toBe(0o755);
    expect(readFileSync(join(directory, 'lib/data.bin'), 'utf8')).toBe('the data');
    expect(notes).toEqual(['Fetched 2 files in Git LFS', expect.stringContaining('"lib"'), 'Fetched 1 file in Git LFS']);
    expect(readdirSync(join(folder, 'one'))).toEqual(['files']);
    expect(server.lfs.requests.filter((path) => path.endsWith('/batch'))).toEqual([
      '/a.git/info/lfs/objects/batch',
      '/lib.git/info/lfs/objects/batch',
    ]);
  });

  it('says why contents of files in Git LFS are missing', async () => {
    const pointer = server.lfs.pointerTo('the model');
    const oid = /[0-9a-f]{64}/.exec(pointer)?.[0] ?? '';
    server.commit('a', { 'model.bin': pointer });
    const noted = async (more?: Partial<FetchRequest>) => {
      const { directory, notes } = await fetchOf(server.url('a'), more);
      expect(readFileSync(join(directory, 'model.bin'), 'utf8')).toBe(pointer);
      return notes.join();
    };
    server.lfs.objects.set(oid, Buffer.from('other bytes'));
    expect(await noted()).toContain('"model.bin". The server sent other contents');
    server.lfs.objects.set(oid, Buffer.from('the modem'));
    expect(await noted()).toContain('other contents');
    server.lfs.hrefOf = () => 'http://127.0.0.1:1/metadata';
    expect(await noted()).toContain('does not begin with https://');
    server.lfs.hrefOf = () => 'https://169.254.169.254/metadata';
    expect(await noted()).toContain('has a private address');
    const limits = { receivedBytesMax: 64 * MIB, filesBytesMax: pointer.length + 8, filesMax: 10, seconds: 60 };
    expect(await noted({ limits })).toContain('larger than the files of a repository may be');
    server.lfs.objects.set('another', Buffer.alloc(0)).delete(oid);
    expect(await noted()).toContain('does not have them');
    server.commit('a', { 'model.bin': pointer, '.lfsconfig': '[lfs]\n\turl = https://lfs.example.com/a\n' });
    expect(await noted()).toBe('Files in Git LFS are not fetched, so that they hold only pointers: "model.bin"');
  });

  it('shows the credential to the server of Git LFS on the repository’s own host alone', async () => {
    await server.close();
    server = await GitServer.start('robot:canary-1');
    const others = await GitServer.start();
    server.lfs.hrefOf = (oid) => `${others.url('x')}/${oid}`;
    server.commit('a', { 'model.bin': server.lfs.pointerTo('the model') });
    const credential = { username: 'robot', password: 'canary-1' };
    expect((await fetchOf(server.url('a'), { credential })).notes.join()).toContain('https://');
    expect(others.seen).toEqual([]);
    server.lfs.hrefOf = (oid, base) => `${base}/lfs-objects/${oid}`;
    const { directory } = await fetchOf(server.url('a'), { credential });
    expect(readFileSync(join(directory, 'model.bin'), 'utf8')).toBe('the model');
    expect(new Set(server.seen)).toEqual(new Set(['robot:canary-1']));
    await others.close();
  });

  it.each(['lib', 'libs/lib'])('has nothing of its submodule %s written elsewhere by a link in its way', async (path) => {
    const commit = server.commit('lib', { planted: 'x' });
    server.commit('a', { file: 'x' });
    const inner = server.treeOf('a', [`160000 commit ${commit}\tlib`]);
    const ways: Record<string, string[]> = { lib: [`160000 commit ${commit}\tlib`], 'libs/lib': [`040000 tree ${inner}\tlibs`] };
    const link = `120000 blob ${server.blob('a', 'elsewhere')}\t${path.split('/')[0]}`;
    const settings = `100644 blob ${server.blob('a', modules({ [path]: '../lib' }))}\t.gitmodules`;
    const elsewhere = `040000 tree ${server.tree('a', { file: 'x' })}\telsewhere`;
    server.commitTree('a', server.treeOf('a', [settings, elsewhere, link, ...(ways[path] ?? [])]));
    expect(await refusal(server.url('a'))).toMatch(/^RepositoryRefused/);
    expect(readdirSync(join(folder, 'one', 'files', 'elsewhere'))).toEqual(['file']);
  });
});
