import { parseRepositoryUrl } from './repository-url.ts';
import { submodulesOf, submoduleUrl } from './submodules.ts';

const parent = parseRepositoryUrl('https://git.example.com/team/project.git');
const sha = 'a'.repeat(40);

describe('the address of a submodule', () => {
  it.each([
    ['../lib', 'https://git.example.com/team/lib'],
    ['../lib.git', 'https://git.example.com/team/lib.git'],
    ['./../lib', 'https://git.example.com/team/lib'],
    ['../../other/lib', 'https://git.example.com/other/lib'],
    ['./sub', 'https://git.example.com/team/project.git/sub'],
    ['https://git.example.com/x/y', 'https://git.example.com/x/y'],
    ['https://GIT.example.com:443/x/y', 'https://git.example.com/x/y'],
    ['http://git.example.com/x/y', 'https://git.example.com/x/y'],
    ['git@git.example.com:x/y.git', 'https://git.example.com/x/y.git'],
    ['ssh://git@git.example.com/x/y.git', 'https://git.example.com/x/y.git'],
    ['git://git.example.com/x/y', 'https://git.example.com/x/y'],
  ])('%s is %s', (url, href) => {
    expect(submoduleUrl(url, parent)?.href).toBe(href);
  });

  it.each([
    'https://example.com/x/y',
    'https://git.example.com.evil.example/x',
    'https://git.example.com:8443/x/y',
    'https://user:secret@git.example.com/x/y',
    'git@other.example.com:x/y',
    'ssh://git.example.com:22/x',
    '../../../x',
    '../a/../../b',
    '/etc/passwd',
    'file:///etc',
    'ext::sh -c touch% /tmp/x',
    'fd::17',
    '--upload-pack=touch x',
    '-u',
    'lib',
    '',
    '../a\nb',
    '../%2e%2e/x',
  ])('%j is not fetched', (url) => {
    expect(submoduleUrl(url, parent)).toBeNull();
  });

  it('at a local path is a relative one only', () => {
    const local = parseRepositoryUrl('file:///srv/git/a.git');
    expect(submoduleUrl('../b.git', local)?.href).toBe('file:///srv/git/b.git');
    for (const url of ['file:///etc', 'https://git.example.com/x', '/etc']) expect(submoduleUrl(url, local)).toBeNull();
  });
});

it('takes the submodules that the commit has, each once', () => {
  const settings = ['submodule.a.path\nlibs/a/', 'submodule.a.url\n../a', 'submodule.b.path\nlibs/a', 'submodule.b.url\n../b'];
  const more = ['submodule.c.path\nlibs/c', 'submodule.c.url\n../c', 'submodule.d.path\nnot-there', 'submodule.d.url\n../d', 'nonsense'];
  const entries = [`160000 commit ${sha}\tlibs/a`, `160000 commit ${sha}\tlibs/c`, `100644 blob ${sha}\tnot-there`];
  const found = submodulesOf([...settings, ...more], entries, parent);
  expect(found.map(({ path, repository }) => [path, repository.href])).toEqual([
    ['libs/a', 'https://git.example.com/team/a'],
    ['libs/c', 'https://git.example.com/team/c'],
  ]);
});
