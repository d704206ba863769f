import fc from 'fast-check';
import type { FileOwner, FileStat } from '../engine/archive.ts';
import { AccountChanges, areRoots, checkAccountFiles, neverBecomesRoot } from './account-files.ts';

type Files = Record<string, FileStat['kind'] | `→${string}`>;
const of = (files: Files) => async (path: string) => {
  const found = files[path];
  if (found === undefined) return null;
  return { kind: found.startsWith('→') ? 'link' : found, size: 900, target: found.replace(/^→/, '') } as FileStat;
};
const usual: Files = { '/etc': 'directory', '/etc/passwd': 'file', '/etc/group': 'file' };

describe('the files of accounts of an image', () => {
  it.each<[string, Files]>([
    ['ordinary', usual],
    ['not there', { '/etc': 'directory' }],
    ['those of an image with links elsewhere', { ...usual, '/var': 'directory', '/var/run': '→/run', '/data': '→/srv/data' }],
  ])('let a container start if they are %s', async (_, files) => {
    await expect(checkAccountFiles(of(files), ['/data', '/var/run/x'])).resolves.toBe(false);
  });

  it('let a container start if they are links to ordinary files, or to nothing', async () => {
    const linked: Files = { ...usual, '/etc/passwd': '→/nix/store/a-passwd', '/etc/group': '→/nowhere', '/nix/store/a-passwd': 'file' };
    await expect(checkAccountFiles(of(linked), ['/data'])).resolves.toBe(true);
    await expect(checkAccountFiles(of(linked), ['/nix'])).rejects.toThrow('would take the place');
  });

  it.each(['pipe', 'device', 'link'] as const)('are refused if one is a link to a %s', async (kind) => {
    const linked: Files = { ...usual, '/etc/group': '→/a', '/a': kind };
    await expect(checkAccountFiles(of(linked), [])).rejects.toThrow(`/etc/group is no ordinary file, but a ${kind}`);
  });

  it.each(['pipe', 'device', 'character device', 'socket', 'directory'] as const)('are refused if one is a %s', async (kind) => {
    for (const path of ['/etc/passwd', '/etc/group'])
      await expect(checkAccountFiles(of({ ...usual, [path]: kind }), [])).rejects.toThrow(`${path} is no ordinary file, but a ${kind}`);
  });

  it('are refused if they are large, or in a folder that is a link', async () => {
    const large = async (path: string) => ({ ...((await of(usual)(path)) as FileStat), size: 2 * 1024 * 1024 });
    await expect(checkAccountFiles(large, [])).rejects.toThrow('more than 1 MiB');
    await expect(checkAccountFiles(of({ ...usual, '/etc': '→/data' }), [])).rejects.toThrow('/etc is no folder, but a link');
  });

  it.each<[string, Files, string]>([
    ['on the folder', {}, '/etc'],
    ['on a file', {}, '/etc/./passwd'],
    ['on a link to the folder', { '/data': '→/etc' }, '/data'],
    ['below a link to the root', { '/a': 'directory', '/a/b': '→/' }, '/a/b/etc/'],
    ['on a link to the root', { '/data': '→/' }, '/data'],
  ])('are refused if a volume is mounted %s', async (_, links, volume) => {
    await expect(checkAccountFiles(of({ ...usual, ...links }), [volume])).rejects.toThrow('would take the place');
  });
});

describe('who can change the files of accounts', () => {
  const owned = (others: Record<string, FileOwner | null>) =>
    areRoots((path) => Promise.resolve(path in others ? (others[path] ?? null) : { uid: 0, mode: 0o755 }));

  it('is root alone if all folders on the path are root’s, or missing', async () => {
    expect(await owned({})).toBe(true);
    expect(await owned({ '/etc/passwd': { uid: 0, mode: 0o644 }, '/etc/group': null })).toBe(true);
  });

  it.each(['/', '/etc', '/etc/passwd', '/etc/group'])(
    'is somebody else, too, if %s is another’s or may be written by others',
    async (path) => {
      for (const other of [
        { uid: 1_000, mode: 0o755 },
        { uid: 0, mode: 0o775 },
        { uid: 0, mode: 0o1777 },
      ])
        expect(await owned({ [path]: other })).toBe(false);
    },
  );
});

describe('a container', () => {
  const held = { SecurityOpt: ['seccomp={}', 'no-new-privileges:true'] };

  it.each(['1000', '1000:1000', '65534:0'])('has no program that becomes root if its user is %s', (user) => {
    expect(neverBecomesRoot(user, held)).toBe(true);
  });

  it.each(['', '0', '00', '0:1000', 'root', 'toor', 'user', '-1', '1000:users', '1000x'])('may have one if its user is “%s”', (user) => {
    expect(neverBecomesRoot(user, held)).toBe(false);
  });

  it('may have one if its programs can get more rights', () => {
    expect(neverBecomesRoot('1000', {})).toBe(false);
    expect(neverBecomesRoot('1000', { SecurityOpt: ['no-new-privileges:false'] })).toBe(false);
    expect(neverBecomesRoot('1000', { ...held, Privileged: true })).toBe(false);
  });
});

describe('a container that ran', () => {
  const changed = (...lines: string[]) => {
    const changes = new AccountChanges();
    for (const line of lines) changes.add(line.slice(2), { C: 0, A: 1, D: 2 }[line[0] as string] ?? 0);
    return changes.any;
  };

  it('is started again if its program left the files of accounts alone', () => {
    expect(changed()).toBe(false);
    expect(changed('C /etc', 'A /etc/nginx.conf', 'C /opt', 'A /opt/passwd')).toBe(false);
  });

  it.each([
    ['a file', ['C /etc', 'C /etc/passwd']],
    ['a file that was removed', ['C /etc', 'D /etc/group']],
    ['the folder, which may be a link now', ['C /etc']],
    ['the folder, which was made anew', ['A /etc', 'A /etc/hosts']],
  ])('is created again if its program changed %s', (_, lines) => expect(changed(...lines)).toBe(true));

  it('is created again whatever else its program changed', () => {
    fc.assert(
      fc.property(fc.array(fc.string().map((name) => `A /etc/${name}`)), (others) => {
        expect(changed(...others, 'C /etc/passwd', ...others)).toBe(true);
      }),
    );
  });
});
