import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { lstat, readlink, stat } from 'node:fs/promises';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { join } from 'node:path';

import { FetchedRepositories } from '../../../test/support/fetched-repositories.ts';
import { GitServer } from '../../../test/support/git-server.ts';
import { until } from '../../../test/support/until.ts';
import { packZeros } from '../../../test/support/packed-zero-blob.ts';
import { type FetchRequest, removeOldFetches } from './fetch-repository.ts';

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

/** Returns the processes of Git, as Linux lists them, that work in the folder of this test. */
const processes = () =>
  readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/environ`, 'latin1').includes(folder);
    } catch {
      return false;
    }
  });

describe('fetching a repository', () => {
  it('fetches the files of the newest commit of the branch, without Git’s own files', async () => {
    server.commit('a', { 'old.txt': 'old' });
    const commit = server.commit('a', {
      'src/main.js': 'new',
      'run.sh': { executable: '#!/bin/sh' },
      'src/again.js': { link: 'main.js' },
      'up/link': { link: '../run.sh' },
      '.gitattributes': '*.js export-ignore\n*.sh filter=lfs\n',
    });
    server.commit('a', { other: 'x' }, 'other');
    const { directory, commitSha } = await fetchOf(server.url('a'));
    expect(commitSha).toBe(commit);
    expect(readdirSync(directory).toSorted()).toEqual(['.gitattributes', 'run.sh', 'src', 'up']);
    expect(readFileSync(join(directory, 'src/again.js'), 'utf8')).toBe('new');
    expect(await readlink(join(directory, 'up/link'))).toBe('../run.sh');
    expect((await stat(join(directory, 'run.sh'))).mode & 0o777).toBe(0o755);
    expect(readdirSync(join(folder, 'one'))).toEqual(['files']);
    expect((await fetchOf(server.url('a'), { branch: 'other' })).commitSha).not.toBe(commit);
  });

  it.each(['over HTTP', 'from a local path'])('brings what a name stands for: a branch before a tag, a tag, a commit, %s', async (way) => {
    const first = server.commit('a', { file: 'first' });
    server.tag('a', 'v1', first);
    server.tag('a', 'note', first, 'A note');
    const second = server.commit('a', { file: 'second' });
    server.tag('a', 'feat/ünï,(1)', second);
    const branch = server.commit('a', { file: 'branch' }, 'feat/ünï,(1)');
    const url = way === 'over HTTP' ? server.url('a') : `file://${server.path('a')}`;
    const fetched = async (name: string) => {
      const { directory, commitSha, found } = await fetchOf(url, { branch: name });
      return [commitSha, found, readFileSync(join(directory, 'file'), 'utf8')];
    };
    expect(await fetched('feat/ünï,(1)')).toEqual([branch, 'the branch feat/ünï,(1)', 'branch']);
    expect(await fetched('v1')).toEqual([first, 'the tag v1', 'first']);
    expect(await fetched('note')).toEqual([first, 'the tag note', 'first']);
    expect(await fetched(first)).toEqual([first, null, 'first']);
    expect(await fetched('main')).toEqual([second, 'the branch main', 'second']);
  });

  it('takes the default branch for main where there is no main', async () => {
    const commit = server.commit('a', { file: 'x' }, 'master');
    server.commit('a', { file: 'y' }, 'other');
    server.makeDefault('a', 'master');
    const { commitSha, found } = await fetchOf(server.url('a'));
    expect({ commitSha, found }).toEqual({ commitSha: commit, found: 'its default branch master, since it has no main' });
    expect(await refusal(server.url('a'), { branch: 'nowhere' })).toContain('Its default branch is master.');
  });

  it('gives all files the time of their commit', async () => {
    server.time = '2001-02-03T04:05:06Z';
    server.commit('a', { 'src/main.js': 'x', link: { link: 'src/main.js' } });
    const { directory } = await fetchOf(server.url('a'));
    for (const name of ['src', 'src/main.js', 'link'])
      expect((await lstat(join(directory, name))).mtime.toISOString()).toBe('2001-02-03T04:05:06.000Z');
  });

  it('says which submodules and files in Git LFS it did not bring', async () => {
    const pointer = 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n';
    const files = { 'model.bin': pointer, '.gitmodules': '[submodule "a"]\n\tpath = libs/a\n\turl = ../a\n' };
    server.commit('a', { ...files, 'about.md': `See ${pointer}` });
    expect((await fetchOf(server.url('a'))).notes).toEqual([
      'Submodules are not fetched, so that their folders are empty: "libs/a"',
      'Files in Git LFS are not fetched, so that they hold only pointers: "model.bin"',
    ]);
    server.commit('a', Object.fromEntries(Array.from({ length: 7 }, (_, at) => [`${at}.bin`, pointer])));
    expect((await fetchOf(server.url('a'))).notes).toEqual([expect.stringContaining('"4.bin" and 2 more')]);
  });

  it('fetches a repository at a local path only if the operator allows it', async () => {
    const commit = server.commit('a', { file: 'x' });
    expect((await fetchOf(`file://${server.path('a')}`)).commitSha).toBe(commit);
    expect(await refusal(`file://${server.path('a')}`, { isAllowed: false })).toContain('not allowed by the operator');
  });

  it('reports a missing branch, repository or server', async () => {
    server.commit('a', { file: 'x' });
    expect(await refusal(server.url('a'), { branch: 'nowhere' })).toBe(
      'RepositoryRefused: The repository has no branch, tag or commit nowhere. Its default branch is main.',
    );
    expect(await refusal(server.url('a'), { branch: '0123abc' })).toContain('A commit is named by its whole hash.');
    expect(await refusal(server.url('a'), { branch: '0'.repeat(40) })).toContain('has no branch, tag or commit 000');
    expect(await refusal(server.url('b'))).toContain('was not found');
    server.answer = (_, response) => response.end('<html>');
    expect(await refusal(server.url('a'))).toContain('no Git repository at this address');
    const url = server.url('a');
    await server.close();
    expect(await refusal(url)).toContain('could not be reached (ECONNREFUSED)');
  });

  it('passes the credential to the server, and to no process, file or message', async () => {
    await server.close();
    const password = 'canary-password-1';
    server = await GitServer.start(`robot:${password}`);
    server.commit('a', { file: 'x' });
    let leaks = 0;
    const watch = setInterval(() => {
      for (const pid of processes()) {
        try {
          if (/canary/.test(readFileSync(`/proc/${pid}/environ`, 'latin1') + readFileSync(`/proc/${pid}/cmdline`, 'latin1'))) leaks += 1;
        } catch {
          // It has ended.
        }
      }
    }, 5);
    await fetchOf(server.url('a'), { credential: { username: 'robot', password } });
    clearInterval(watch);
    expect(leaks).toBe(0);
    expect(server.seen).toContain(`robot:${password}`);
    const wrong = await refusal(server.url('a'), { credential: { username: 'robot', password: 'canary-2' } });
    expect(wrong).toContain('not found with the credential');
    expect(wrong).not.toContain('canary');
    expect(await refusal(server.url('a'))).toContain('needs a credential');
  });

  it('follows no redirect, and names the new address without its credential', async () => {
    const touched: string[] = [];
    const inner = createServer((socket) => touched.push(socket.remoteAddress ?? '')).listen(0, '127.0.0.1');
    await once(inner, 'listening');
    const { port } = inner.address() as { port: number };
    for (const target of [`http://127.0.0.1:${port}/x.git/info/refs`, 'http://169.254.169.254/latest/meta-data']) {
      server.answer = (_, response) => response.writeHead(302, { location: target.replace('//', '//u:canary@') }).end();
      const message = await refusal(server.url('a'));
      expect(message).toContain('redirects are not followed');
      expect(message).toContain(target.replace('/info/refs', ''));
      expect(message).not.toContain('canary');
    }
    expect(touched).toEqual([]);
    inner.close();
  });

  it('reaches no private address, also if the name led to a public one before', async () => {
    server.commit('a', { file: 'x' });
    const { port } = new URL(server.url('a'));
    const asked: string[] = [];
    for (const addresses of [['127.0.0.1'], ['93.184.216.34', '127.0.0.1'], ['169.254.169.254'], ['::1'], ['::ffff:127.0.0.1']]) {
      const resolve = async (host: string) => {
        asked.push(host);
        return addresses;
      };
      expect(await refusal(`https://moves.example:${port}/a.git`, { isAllowed: false, resolve })).toContain('private address');
    }
    for (const host of ['127.0.0.1', '[::1]', '0.0.0.0', '10.0.0.1', '169.254.169.254', '0x7f.1', '2130706433'])
      expect(await refusal(`https://${host}:${port}/a.git`, { isAllowed: false })).toContain('private address');
    expect(await refusal(server.url('a'), { isAllowed: false })).toContain('over https only');
    expect(new Set(asked)).toEqual(new Set(['moves.example']));
    expect(server.seen).toEqual([]);
  });
});

describe('a hostile repository', () => {
  it.each([
    ['to the root', '/'],
    ['to a file of the machine', '/etc/passwd'],
    ['upwards', '../outside'],
    ['upwards through another link', 'deep/up/../../outside'],
    ['nowhere', ''],
  ])('is refused if it has a link %s', async (_, target) => {
    server.commit('a', { 'deep/up': { link: '..' }, 'deep/file': 'x', link: { link: target } });
    const message = await refusal(server.url('a'));
    expect(message).toMatch(/leads out of it|could not be read/);
  });

  it.each(['..', '.git', '.GIT', '.', 'a\nb', 'a\\b'])('is refused if it has a file named %j', async (name) => {
    server.commit('a', { file: 'x' });
    const blob = server.blob('a', 'x');
    server.commitTree('a', server.treeOf('a', [`100644 blob ${blob}\t${name}`]));
    expect(await refusal(server.url('a'))).toMatch(/^RepositoryRefused/);
    expect(existsSync(join(folder, 'file'))).toBe(false);
  });

  it('is refused if its branch leads to no commit', async () => {
    server.commit('a', { file: 'x' });
    writeFileSync(join(server.path('a'), 'refs/heads/main'), `${server.blob('a', 'x')}\n`);
    expect(await refusal(server.url('a'))).toMatch(/^RepositoryRefused/);
  });

  it('is refused if a file would be written through a link of the same name', async () => {
    server.commit('a', { file: 'x' });
    const inner = server.tree('a', { planted: 'x' });
    const link = server.blob('a', '..');
    server.commitTree('a', server.treeOf('a', [`120000 blob ${link}\td`, `040000 tree ${inner}\td`]));
    expect(await refusal(server.url('a'))).toMatch(/^RepositoryRefused/);
    expect(existsSync(join(folder, 'one', 'planted'))).toBe(false);
  });

  it('is refused if its files are larger than allowed, although they are small when packed', async () => {
    server.commit('a', { zeros: Buffer.alloc(70 * MIB) });
    expect(await refusal(server.url('a'))).toContain('more than 64 MiB');
  });

  it('is given up, with next to nothing written, if it has a file of 10 GB zeros that is small when packed', async () => {
    server.commit('a', { file: 'x' });
    server.commitTree('a', server.treeOf('a', [`100644 blob ${packZeros(server.path('a'))}\tzeros`]));
    const limits = { receivedBytesMax: 64 * MIB, filesBytesMax: 64 * MIB, filesMax: 10, seconds: 2 };
    expect(await refusal(server.url('a'), { limits })).toContain('damaged, or too large');
    expect(execFileSync('du', ['-sm', folder]).toString()).toMatch(/^\d\d?\t/);
    expect(processes()).toEqual([]);
  });

  it('is refused if it unfolds to more files or deeper folders than allowed', async () => {
    server.commit('a', { file: 'x' });
    let tree = server.tree('a', { file: 'x' });
    for (let level = 0; level < 10; level++)
      tree = server.treeOf(
        'a',
        Array.from({ length: 10 }, (_, n) => `040000 tree ${tree}\td${n}`),
      );
    server.commitTree('a', tree);
    expect(await refusal(server.url('a'))).toContain('more than 1000 files');
    let deep = server.tree('a', { file: 'x' });
    for (let level = 0; level < 70; level++) deep = server.treeOf('a', [`040000 tree ${deep}\td`]);
    server.commitTree('a', deep);
    expect(await refusal(server.url('a'))).toContain('more than 64 folders');
  });

  it('is refused if its server sends more than allowed', async () => {
    const noise = Buffer.from(Array.from({ length: 3 * MIB }, () => Math.floor(Math.random() * 256)));
    server.commit('a', { noise });
    const limits = { receivedBytesMax: 2 * MIB, filesBytesMax: 64 * MIB, filesMax: 10, seconds: 60 };
    expect(await refusal(server.url('a'), { limits })).toContain('more than 2 MiB to fetch');
    expect(await refusal(`file://${server.path('a')}`, { limits })).toContain('damaged, or too large');
  });

  it('fails if its server sends too slowly', async () => {
    const timers: NodeJS.Timeout[] = [];
    server.answer = (_, response) => {
      response.writeHead(200, { 'content-type': 'application/x-git-upload-pack-advertisement' });
      timers.push(setInterval(() => response.write('0'), 20));
    };
    const message = await refusal(server.url('a'), { leastSpeed: { bytes: 1_000, withinMs: 500 } });
    timers.forEach(clearInterval);
    expect(message).toContain('less than 1000 bytes in 0.5 s');
  });
});

describe('a fetch that ends early', () => {
  it('throws the reason and leaves no process', async () => {
    const asked = new Promise<void>((resolve) => (server.answer = () => resolve()));
    const stop = new AbortController();
    const fetching = fetchOf(server.url('a'), { signal: stop.signal });
    await asked;
    expect(processes().length).toBeGreaterThan(0);
    stop.abort(new Error('canceled'));
    await expect(fetching).rejects.toThrow('canceled');
    await until('the end of Git', () => (processes().length === 0 ? true : undefined));
  });

  it('leaves a folder that is removed once it is older than any deployment can be', async () => {
    server.commit('a', { file: 'x' });
    await fetchOf(server.url('a'));
    await removeOldFetches(folder, new Date(Date.now() - 60_000));
    expect(readdirSync(folder)).toEqual(['one']);
    await removeOldFetches(folder, new Date(Date.now() + 60_000));
    expect(readdirSync(folder)).toEqual([]);
    await removeOldFetches(join(folder, 'missing'), new Date());
  });
});
