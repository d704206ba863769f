import { readConfig } from '../../../kernel/config/read-config.ts';
import { SourceHosts } from './source-hosts.service.ts';

const hosts: Record<string, string[]> = {
  'public.example': ['93.184.216.34'],
  'inner.example': ['10.1.2.3'],
  'inner.example.': ['10.1.2.3'],
  'both.example': ['93.184.216.34', '192.168.0.7'],
};
const asked: string[] = [];

function registries(allowed = ''): SourceHosts {
  const config = readConfig({ MOORING_ALLOW_PRIVATE_SOURCES: allowed });
  return new SourceHosts(config, async (host) => {
    asked.push(host);
    if (host === 'silent.example') return new Promise(() => undefined);
    const found = hosts[host] ?? (/^[0-9.]+$|:/.test(host) ? [host] : undefined);
    if (found === undefined) throw new Error('not found');
    return found;
  });
}

const refusal = (image: string, allowed?: string) =>
  registries(allowed)
    .refuseImage(image, 'acme', 'snake_case')
    .then(
      () => null,
      (error: { code: string }) => error.code,
    );

describe('an image at a registry', () => {
  it.each([
    '127.0.0.1:5000/x',
    '10.0.0.1/x',
    '172.16.0.1/x',
    '192.168.1.1:80/x',
    '169.254.169.254/latest/meta-data',
    '100.64.0.1/x',
    '0.0.0.0/x',
    '[::1]:5000/x',
    '[fe80::1]/x',
    '[fd00::1]/x',
    '[::ffff:7f00:1]:5000/x',
    'inner.example/x',
    'INNER.example/x',
    'both.example/x',
  ])('%s is refused, because its address is private', async (image) => {
    expect(await refusal(image)).toBe('invalid_request');
  });

  it.each(['localhost/x', '2130706433:5000/x', '0x7f.0.0.1/x'])(
    '%s is refused, because the system finds a private address',
    async (image) => {
      const found = new SourceHosts(readConfig({})).refuseImage(image, 'acme', 'snake_case');
      await expect(found).rejects.toMatchObject({ code: 'invalid_request' });
    },
  );

  it.each(['nginx', 'library/nginx:1', 'public.example/x', '93.184.216.34/x', '[2606:4700::1]/x'])('%s may be requested', async (image) => {
    expect(await refusal(image)).toBeNull();
  });

  it('may come from a private one that the operator allows, on the port if the operator names one', async () => {
    expect(await refusal('inner.example:5000/x', 'inner.example:5000')).toBeNull();
    expect(await refusal('inner.example/x', 'Inner.Example')).toBeNull();
    expect(await refusal('[::1]:5000/x', '[::1]:5000')).toBeNull();
    expect(await refusal('inner.example:5001/x', 'inner.example:5000')).toBe('invalid_request');
  });

  it('passes at first if its name is not found, and is `unknown` before the pull', async () => {
    expect(await refusal('nowhere.example/x')).toBeNull();
    expect(await registries().scopeOf('nowhere.example/x', 'acme', 1_000)).toBe('unknown');
  });

  it('is `unknown` if resolving its name takes too long, which delays no other account', async () => {
    const all = registries();
    const slow = ['a', 'b', 'c'].map(() => all.scopeOf('silent.example/x', 'acme', 200));
    expect(await all.scopeOf('inner.example/x', 'other', 5_000)).toBe('private');
    expect(await Promise.all(slow)).toEqual(['unknown', 'unknown', 'unknown']);
  });

  it('is looked up once for many callers', async () => {
    const all = registries();
    asked.length = 0;
    for (let n = 0; n < 5; n++) await all.refuseImage('public.example/x', 'acme', 'snake_case');
    expect(asked).toEqual(['public.example']);
  });

  it('is looked up anew before each pull, whatever was found at the request, and once for all pulls that are due together', async () => {
    const all = registries();
    hosts['moves.example'] = ['93.184.216.34'];
    await all.refuseImage('moves.example/x', 'acme', 'snake_case');
    hosts['moves.example'] = ['127.0.0.1'];
    await all.refuseImage('moves.example/x', 'acme', 'snake_case');
    asked.length = 0;
    const pulls = Array.from({ length: 20 }, () => all.scopeOf('moves.example/x', 'acme', 60_000));
    expect(new Set(await Promise.all(pulls))).toEqual(new Set(['private']));
    expect(asked).toEqual(['moves.example']);
    await all.scopeOf('moves.example/x', 'acme', 60_000);
    expect(asked).toEqual(['moves.example', 'moves.example']);
  });
});

describe('a repository', () => {
  const refused = (url: string, allowed?: string) =>
    registries(allowed)
      .refuseRepository(url, 'acme', 'camelCase')
      .then(
        () => null,
        (error: { code: string; message: string }) => error.code,
      );

  it.each([
    'https://127.0.0.1/a.git',
    'https://127.1/a.git',
    'https://0x7f000001/a.git',
    'https://2130706433/a.git',
    'https://0177.0.0.1/a.git',
    'https://10.0.0.1/a.git',
    'https://169.254.169.254/a.git',
    'https://[::1]:8443/a.git',
    'https://[::ffff:127.0.0.1]/a.git',
    'https://inner.example/a.git',
    'https://INNER.example./a.git',
    'https://both.example/a.git',
    'http://public.example/a.git',
    'file:///etc',
    'ext::sh -c x',
    'https://user:password@public.example/a.git',
  ])('at %s is refused', async (url) => {
    expect(await refused(url)).toBe('invalid_request');
  });

  it('may be at a public address, or where the operator allows it', async () => {
    expect(await refused('https://public.example/a.git')).toBeNull();
    expect(await refused('https://nowhere.example/a.git')).toBeNull();
    expect(await refused('http://inner.example:3000/a.git', 'inner.example:3000')).toBeNull();
    expect(await refused('http://inner.example:3001/a.git', 'inner.example:3000')).toBe('invalid_request');
    expect(await refused('file:///srv/a.git', 'file:')).toBeNull();
  });
});
