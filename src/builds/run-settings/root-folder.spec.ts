import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { readMooringJson } from './read-mooring-json.ts';
import { rootFolder } from './root-folder.ts';

let repository: string;
beforeEach(() => {
  repository = mkdtempSync(join(tmpdir(), 'mooring-root-'));
  mkdirSync(join(repository, 'apps/api'), { recursive: true });
  writeFileSync(join(repository, 'README.md'), '');
  symlinkSync('/', join(repository, 'out'));
  symlinkSync('apps', join(repository, 'inside'));
});
afterEach(() => rmSync(repository, { recursive: true }));

describe('the folder of an agent in its repository', () => {
  it.each([
    ['', ''],
    ['.', ''],
    ['apps/api', 'apps/api'],
    ['./apps//api/', 'apps/api'],
  ])('%j is found', async (root, folder) => {
    expect(await rootFolder(repository, root)).toBe(join(repository, folder));
  });

  it.each([
    ['apps/web', 'The folder "apps/web", which the setting root names, is not there.'],
    ['README.md', 'The folder "README.md", which the setting root names, is not there.'],
    ['out/etc', 'The folder "out/etc", which the setting root names, is a link, and must be a folder.'],
    ['inside', 'The folder "inside", which the setting root names, is a link, and must be a folder.'],
    ['apps/../..', 'The folder of the setting root must be in the repository.'],
  ])('%j is refused', async (root, message) => {
    await expect(rootFolder(repository, root)).rejects.toMatchObject({ name: 'RepositoryRefused', message });
  });

  it('holds no link that leads out of it, since nothing else of the repository is built', async () => {
    mkdirSync(join(repository, 'apps/api/src'));
    symlinkSync('../package.json', join(repository, 'apps/api/src/own'));
    expect(await rootFolder(repository, 'apps/api')).toBe(join(repository, 'apps/api'));
    symlinkSync('../../README.md', join(repository, 'apps/api/src/other'));
    expect(await rootFolder(repository, 'apps')).toBe(join(repository, 'apps'));
    await expect(rootFolder(repository, 'apps/api')).rejects.toThrow(
      'The link "src/other" leads out of the folder "apps/api", which the setting root names.',
    );
  });
});

describe('the text of mooring.json', () => {
  const path = () => join(repository, 'mooring.json');

  it('is read, and may be absent', async () => {
    expect(await readMooringJson(repository)).toBeNull();
    writeFileSync(path(), '{}');
    expect(await readMooringJson(repository)).toBe('{}');
  });

  it('is refused if it is large, a link or a folder', async () => {
    writeFileSync(path(), ' '.repeat(65_537));
    await expect(readMooringJson(repository)).rejects.toThrow('mooring.json has more than 64 KiB.');
    rmSync(path());
    symlinkSync('/etc/passwd', path());
    await expect(readMooringJson(repository)).rejects.toThrow('mooring.json must be a file, and neither a link nor a folder.');
    rmSync(path());
    mkdirSync(path());
    await expect(readMooringJson(repository)).rejects.toThrow('mooring.json must be a file, and neither a link nor a folder.');
  });
});
