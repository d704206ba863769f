import fc from 'fast-check';

import { allowedMethods, recordRoutes } from './requests/known-routes.ts';
import { checkRevision, parseIfMatch } from './responses/etag.ts';
import { includesScope } from './auth/scopes.ts';
import { parseJson } from './requests/json.ts';
import { decodeCursor, encodeCursor } from './responses/paging.ts';
import { parsePrefer } from './responses/prefer.ts';

describe('JSON', () => {
  it('returns what was sent', () => {
    const text = fc.string({ unit: 'binary' }).filter((value) => !value.includes('\0'));
    const value = fc.letrec((tie) => ({
      any: fc.oneof(
        { maxDepth: 5 },
        text,
        fc.integer(),
        fc.boolean(),
        fc.constant(null),
        fc.array(tie('any')),
        fc.dictionary(
          text.filter((key) => !['__proto__', 'constructor', 'prototype'].includes(key)),
          tie('any'),
          { noNullPrototype: true },
        ),
      ),
    })).any;
    fc.assert(fc.property(value, (sent) => expect(parseJson(Buffer.from(JSON.stringify(sent)))).toEqual(sent)));
  });

  it.each(['__proto__', 'constructor', 'prototype'])('may not have a member %s, which the framework would drop silently', (name) => {
    expect(() => parseJson(Buffer.from(`{"a": {"${name}": 1}}`))).toThrow('not allowed');
  });

  it.each(['', '\\"', '\\\\', '\\u0022', 'é'])('may have any number of brackets and commas in a text, also behind %s', (before) => {
    const [text, brackets] = [`${before}${'['.repeat(100)}`, `${before}${','.repeat(2_000)}`];
    const body = `{"a":"${text}","b":["${brackets}"],"c":"${before}"}`;
    expect(parseJson(Buffer.from(body))).toEqual(JSON.parse(body));
  });

  it('may begin with a byte order mark', () => {
    expect(parseJson(Buffer.from('\uFEFF{"a":"é"}'))).toEqual({ a: 'é' });
  });

  it('may be 64 levels deep and no deeper', () => {
    const nested = (depth: number) => Buffer.from('['.repeat(depth) + ']'.repeat(depth));
    expect(parseJson(nested(64))).toBeDefined();
    expect(() => parseJson(nested(65))).toThrow('64 levels');
    expect(() => parseJson(nested(500_000))).toThrow('64 levels');
  });

  it('may be absent', () => {
    expect(parseJson(Buffer.alloc(0))).toBeUndefined();
  });
});

describe('Prefer', () => {
  it.each([
    [undefined, null],
    ['wait=0', 0],
    ['WAIT = 120', 120],
    ['wait="7"; foo=bar', 7],
    ['handling=lenient, wait=3, wait=9', 3],
    [['respond-async', 'wait=2'], 2],
    ['await=3', null],
  ])('%p requests a wait of %p', (header, seconds) => {
    expect(parsePrefer(header as string)).toBe(seconds);
  });

  it.each(['wait=121', 'wait=-1', 'wait', 'wait=1.5', 'wait=x'])('%s is refused', (header) => {
    expect(() => parsePrefer(header)).toThrow('120');
  });
});

describe('If-Match', () => {
  it('allows the revisions that it names; * and no header allow any', () => {
    expect(parseIfMatch(undefined)).toBeNull();
    expect(parseIfMatch('*')).toBeNull();
    expect(parseIfMatch('"3", "4"')).toEqual([3, 4]);
    expect(parseIfMatch('W/"3"')).toEqual([]);
    expect(() => checkRevision([3, 4], 4)).not.toThrow();
    expect(() => checkRevision([], 0)).toThrow('revision 0');
  });
});

describe('a cursor', () => {
  it('is decoded to what was encoded, and no other text is accepted as one', () => {
    const value = {
      time: fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
      text: fc.string(),
      position: fc.nat().map((n) => String(n).padStart(20, '0')),
      revision: fc.nat(),
      count: fc.integer({ min: 1 }),
    };
    const kinds = fc.array(fc.constantFrom(...(Object.keys(value) as (keyof typeof value)[])), { minLength: 1, maxLength: 3 });
    const places = kinds.chain((all) =>
      fc.tuple(fc.constant(all), fc.tuple(...all.map((kind): fc.Arbitrary<string | number> => value[kind]))),
    );
    fc.assert(
      fc.property(places, ([all, place]) => {
        fc.pre(!JSON.stringify(place).includes('\\u0000'));
        expect(decodeCursor(encodeCursor(place), ...all)).toEqual(place);
      }),
    );
    fc.assert(fc.property(fc.string(), (text) => expect(() => decodeCursor(text, 'time', 'text')).toThrow('cursor')));
    expect(decodeCursor(undefined, 'time', 'text')).toBeNull();
  });

  it.each([
    ['time', 'yesterday'],
    ['text', 1],
    ['position', '1'],
    ['revision', -1],
    ['count', 0],
  ] as const)('is refused if its %s is %j', (kind, value) => {
    expect(() => decodeCursor(encodeCursor([value]), kind)).toThrow('cursor');
    expect(() => decodeCursor(encodeCursor([]), kind)).toThrow('cursor');
  });
});

describe('scopes', () => {
  it('manage includes deploy and provision; deploy does not include provision', () => {
    const granted =
      (...scopes: Parameters<typeof includesScope>[1][]) =>
      (wanted: Parameters<typeof includesScope>[1]) =>
        includesScope(new Set(scopes), wanted);
    expect(['deploy', 'provision', 'manage', 'secrets', 'computers'].map((scope) => granted('manage')(scope as 'deploy'))).toEqual([
      true,
      true,
      true,
      false,
      false,
    ]);
    expect(granted('deploy')('provision')).toBe(false);
    expect(granted('provision')('deploy')).toBe(false);
  });
});

describe('the methods of an address', () => {
  it('are those of every pattern that it matches', () => {
    const hooks: ((route: { url: string; method: string | string[] }) => void)[] = [];
    const server = { addHook: (_: string, hook: never) => hooks.push(hook) } as never;
    recordRoutes(server);
    for (const [method, url] of [
      ['GET', '/a/:id'],
      ['DELETE', '/a/:id'],
      ['POST', '/a/new'],
      ['GET', '/files/*'],
    ])
      hooks[0]?.({ method: method as string, url: url as string });
    expect(allowedMethods(server, '/a/1?x=/b')).toEqual(['DELETE', 'GET']);
    expect(allowedMethods(server, '/a/new')).toEqual(['DELETE', 'GET', 'POST']);
    expect(allowedMethods(server, '/a/')).toEqual([]);
    expect(allowedMethods(server, '/files/x/y')).toEqual(['GET']);
    expect(allowedMethods(server, '/')).toEqual([]);
  });
});
