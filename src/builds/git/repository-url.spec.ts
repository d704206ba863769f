import fc from 'fast-check';

import { branchProblem, isAllowedSource, parseRepositoryUrl, repositoryUrlProblem } from './repository-url.ts';

describe('the address of a repository', () => {
  it.each([
    ['https://github.com/team/project', 'https://github.com/team/project', 'github.com'],
    ['https://GIT.example.com/team/project.git', 'https://git.example.com/team/project.git', 'git.example.com'],
    ['https://git.example.com:8443/a/b.git/', 'https://git.example.com:8443/a/b.git', 'git.example.com:8443'],
    ['http://127.0.0.1:3000/a.git', 'http://127.0.0.1:3000/a.git', '127.0.0.1:3000'],
    ['https://[2606:4700::1]/a.git', 'https://[2606:4700::1]/a.git', '[2606:4700::1]'],
    ['https://git.example.com/~user/a%20b.git', 'https://git.example.com/~user/a%20b.git', 'git.example.com'],
    ['file:///srv/git/a.git', 'file:///srv/git/a.git', ''],
  ])('%s is accepted', (text, href, authority) => {
    expect(repositoryUrlProblem(text)).toBeNull();
    expect(parseRepositoryUrl(text)).toMatchObject({ href, authority });
  });

  it.each([
    '',
    'x',
    '/etc/passwd',
    './here',
    '-oProxyCommand=touch /tmp/x',
    '--upload-pack=touch /tmp/x',
    'https:-oProxyCommand=x',
    'ext::sh -c touch% /tmp/x',
    'ext::https://host/x',
    'fd::17/foo',
    'git://host/x.git',
    'git+ssh://host/x.git',
    'ssh://host/x.git',
    'ssh://-oProxyCommand=x/y',
    'git@github.com:team/project.git',
    'ftp://host/x.git',
    'ftps://host/x.git',
    'rsync://host/x.git',
    'javascript:alert(1)',
    'data:text/plain,x',
    'unix:///var/run/docker.sock',
    'https:/host/x',
    'https:host/x',
    'https://',
    'https:///x',
    'https://host',
    'https://host/',
    'https://host//',
    'https://user@host/x',
    'https://user:password@host/x',
    'https://:password@host/x',
    'https://user:@host/x',
    'https://@host/x',
    'https://us%40er@host/x',
    'https://host/x y',
    'https://host/x\n',
    'https://host/x\r\nHost: other',
    'https://host/x\tb',
    'https://host/x\u0000',
    ' https://host/x',
    'https://ho\u202est/x',
    'https://host\\@other/x',
    'https://host/\\..\\x',
    'https://host/x?service=y',
    'https://host/x#y',
    'https://host/x?',
    'https://host/../x',
    'https://host/a/./x',
    'https://host/a/..',
    'https://host/%2e%2e/x',
    'https://host/a%2fb',
    'https://host/a%5cb',
    'https://host/a%00b',
    'https://host/a%0d%0aX: y',
    'https://host:99999/x',
    'https://host:/x y',
    'https://[::1/x',
    'https://a b/x',
    'https://exa%mple/x',
    'file://host/x',
    'file:/etc',
    'file://',
    'file:///',
    'file:///a/../b',
    'file:///a?x',
    `https://host/${'x'.repeat(2_048)}`,
  ])('%j is refused', (text) => {
    expect(repositoryUrlProblem(text)).not.toBeNull();
  });

  it('never contains what the rules exclude, for any text', () => {
    const pieces = [
      'https://',
      'http://',
      'file://',
      'ext::',
      '-',
      '@',
      ':',
      '/',
      '\\',
      '..',
      '.',
      '?',
      '#',
      '%2e',
      '%00',
      'host',
      'a',
      '\n',
      ' ',
    ];
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.constantFrom(...pieces), fc.string({ maxLength: 3 })), { maxLength: 12 }), (parts) => {
        const text = parts.join('');
        if (repositoryUrlProblem(text) !== null) return;
        const { href, protocol, host } = parseRepositoryUrl(text);
        const again = new URL(href);
        expect(again).toMatchObject({ username: '', password: '', search: '', hash: '' });
        expect(href.startsWith(`${protocol}://`)).toBe(true);
        expect(/[\s\\]|\/\.\.?(\/|$)/.test(href)).toBe(false);
        expect(protocol === 'file' || host !== '').toBe(true);
        expect(repositoryUrlProblem(href)).toBeNull();
      }),
      { numRuns: 2_000 },
    );
  });

  it('is allowed by its host, by its host with the port, and a local path by `file:`', () => {
    const allows = (url: string, ...names: string[]) => isAllowedSource(parseRepositoryUrl(url), new Set(names));
    expect(allows('http://git.lan/a', 'git.lan')).toBe(true);
    expect(allows('http://git.lan/a', 'git.lan:80')).toBe(true);
    expect(allows('https://git.lan/a', 'git.lan:80')).toBe(false);
    expect(allows('https://[::1]:3000/a', '[::1]:3000')).toBe(true);
    expect(allows('https://other.lan/a', 'git.lan')).toBe(false);
    expect(allows('file:///a', 'git.lan')).toBe(false);
    expect(allows('file:///a', 'file:')).toBe(true);
  });
});

describe('the name of a branch, a tag or a commit', () => {
  it.each([
    'main',
    'feature/x-1',
    'v1.2.3',
    'renovate/node-22.x',
    'user@home',
    'fix#12',
    '_x',
    'feature/ünï-1',
    '中文',
    'می‌خواهم',
    '👩‍💻',
    'feat(ui)',
    'a,b',
    "it's",
    'x=y',
    '100%',
    'a/-b',
    'a&b;$c|d',
    '+a',
    '0123456789abcdef0123456789abcdef01234567',
  ])('%s is accepted', (name) => {
    expect(branchProblem(name)).toBeNull();
  });

  it.each([
    '',
    '-x',
    '--upload-pack=x',
    'a b',
    'a..b',
    'a//b',
    'a/',
    '/a',
    'a.',
    '.a',
    'a/.b',
    'a.lock',
    'a.lock/b',
    'a:b',
    '+a:b',
    'a^',
    'a~1',
    'a?',
    'a*',
    'a[b',
    'a\\b',
    '@{1}',
    'a@{1}',
    'a\nb',
    'a\u0000',
    '@',
    'HEAD',
    'a\ud800',
    'x'.repeat(201),
  ])('%j is refused', (name) => {
    expect(branchProblem(name)).not.toBeNull();
  });
});
