import fc from 'fast-check';
import { ALLOW_LIST_CHARACTERS_MAX, allowedEntry, allowedName, allowListMessage } from './allow-list.ts';

const label = fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?$/).filter((text) => !text.startsWith('xn--'));
const name = fc
  .tuple(fc.array(label, { minLength: 1, maxLength: 4 }), fc.stringMatching(/^[a-z]{2,10}$/))
  .map(([labels, last]) => [...labels, last].join('.'));

describe('a name that an agent may reach', () => {
  it.each([
    ['api.example.com', 'api.example.com'],
    ['API.Example.COM', 'api.example.com'],
    ['*.example.org', '*.example.org'],
    ['host.example.com:8443', 'host.example.com:8443'],
    ['*.example.org:80', '*.example.org:80'],
    ['bücher.example', 'xn--bcher-kva.example'],
    ['my_bucket.example.com', 'my_bucket.example.com'],
  ])('may be written %s', (written, compared) => {
    expect(allowedName(written)).toBe(compared);
  });

  it.each([
    '',
    'localhost',
    '*',
    '*.',
    '*.com',
    'a.*.com',
    '*api.example.com',
    '**.example.com',
    'example.com.',
    '.example.com',
    'a..com',
    '-a.example.com',
    'https://api.example.com',
    'api.example.com/v1',
    'user@api.example.com',
    'api.example.com:',
    'api.example.com:0',
    'api.example.com:65536',
    'api.example.com:080',
    ' api.example.com',
    'api.example.com\n',
    'api example.com',
    '93.184.216.34',
    '10.1.2.0/24',
    '0x7f.1',
    '1.2.3.4.5',
    '[2606:2800:220::1]',
    'fe80::1',
    `${'a'.repeat(64)}.com`,
    `${'a.'.repeat(130)}com`,
  ])('is not %j', (written) => {
    expect(allowedName(written)).toBeNull();
  });

  it('is compared in one form, however it was written', () => {
    fc.assert(
      fc.property(name, fc.boolean(), fc.option(fc.integer({ min: 1, max: 65_535 })), (host, any, port) => {
        const written = `${any ? '*.' : ''}${host}${port === null ? '' : `:${port}`}`;
        const compared = allowedName(written.toUpperCase());
        expect(compared).toBe(any && !host.slice(host.indexOf('.') + 1).length ? null : written);
        expect(allowedName(compared ?? '')).toBe(compared);
      }),
    );
  });

  it('is never the result of a text that does not look like a name', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(allowedName(text) ?? 'none.such').toMatch(/^(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)+(:\d+)?$/);
      }),
    );
  });
});

describe('an entry of a list', () => {
  it.each([
    ['API.example.com', 'api.example.com'],
    ['93.184.216.34', '93.184.216.34/32'],
    ['10.1.2.0/24', '10.1.2.0/24'],
    ['203.0.113.0/24:5432', '203.0.113.0/24:5432'],
    ['93.184.216.34:8443', '93.184.216.34/32:8443'],
  ])('may be written %s', (written, compared) => {
    expect(allowedEntry(written)).toBe(compared);
  });

  it.each([
    '0x7f.1',
    '1.2.3',
    '10.1.2.0/33',
    '10.1.2.0/24:0',
    '10.1.2.0/24:65536',
    '2130706433',
    '[2606:2800:220::1]',
    'fe80::1/10',
    '*.10.1.2.0/24',
    ' 10.1.2.0/24',
  ])('is not %j', (written) => {
    expect(allowedEntry(written)).toBeNull();
  });
});

describe('a list of names', () => {
  it('has 1 to 64 of them, and no more than 4,000 characters', () => {
    const names = (count: number) => Array.from({ length: count }, (_, index) => `h${index}.example.com`);
    expect(allowListMessage({ allow: names(64) })).toBeNull();
    for (const allow of [
      [],
      names(65),
      'api.example.com',
      [1],
      [null],
      Array.from({ length: 40 }, () => `${'a'.repeat(60)}.${'b'.repeat(60)}.com`),
    ])
      expect(allowListMessage({ allow })).toContain(String(ALLOW_LIST_CHARACTERS_MAX));
    for (const value of [{}, [], null, { allow: names(1), deny: [] }, { allowed: names(1) }])
      expect(allowListMessage(value)).toContain('must be');
  });

  it('reports which entry is wrong', () => {
    expect(allowListMessage({ allow: ['api.example.com', '10.1.2.0/24', 'fe80::1'] })).toContain('entry 3');
  });
});
