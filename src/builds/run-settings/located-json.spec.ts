import fc from 'fast-check';

import { JsonFault, locatedMembers } from './located-json.ts';

/** Returns the parsed object, or the fault as `line: message`. */
function parsed(text: string): unknown {
  try {
    return Object.fromEntries(locatedMembers(text).map(({ name, value }) => [name, value]));
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error;
    return `${error.line}: ${error.message}`;
  }
}

function isObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

describe('a JSON object with the lines of its members', () => {
  it('has each member with the line of its name', () => {
    const text = '{\n  "port": 3000,\n  "start": [\n    "node",\n    "a.js"\n  ],\r\n  "cpus"\n  : 0.5 }\n';
    expect(locatedMembers(text)).toEqual([
      { name: 'port', line: 2, value: 3000 },
      { name: 'start', line: 3, value: ['node', 'a.js'] },
      { name: 'cpus', line: 7, value: 0.5 },
    ]);
  });

  it('has both members of one name', () => {
    expect(locatedMembers('{"a":1,\n"a":2}').map(({ line, value }) => [line, value])).toEqual([
      [1, 1],
      [2, 2],
    ]);
  });

  it.each([
    ['', '1: there has to be an object, which begins with {'],
    ['[1]', '1: there has to be an object, which begins with {'],
    ['{"a":1,\n}', '2: there has to be the name of a member, in quotes'],
    ['{\n"a" 1}', '2: there has to be a colon'],
    ['{"a":\n\ntru}', '3: there has to be a value'],
    ['{"a":1\n"b":2}', '2: there has to be a comma or }'],
    ['{"a":[1\n2]}', '2: there has to be a comma or ]'],
    ['{"a":1}\n// done', '2: there has to be nothing more'],
    ['{\n"a":"b\n"}', '2: the text that begins here has no end, or a character that has to be escaped'],
    [`{"a":${'['.repeat(20)}`, '1: it is nested more than 16 levels deep'],
  ])('is refused with the line of the fault: %j', (text, fault) => {
    expect(parsed(text)).toBe(fault);
  });

  it('is read as JSON.parse reads it', () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue({ maxDepth: 5 })),
        fc.constantFrom(0, 2, '\t'),
        (object, space) => {
          const text = JSON.stringify(object, null, space);
          expect(JSON.stringify(parsed(text))).toBe(JSON.stringify(JSON.parse(text)));
        },
      ),
    );
  });

  it('is accepted exactly if it is JSON', () => {
    const pieces = fc.constantFrom(
      '{',
      '}',
      '[',
      ']',
      '"a"',
      '"a":',
      ':',
      ',',
      '1',
      '-',
      '0',
      '.5',
      'e3',
      'true',
      'null',
      ' ',
      '\n',
      '"\\u00e9"',
      '"\\x"',
    );
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 12 }), (parts) => {
        const text = `{${parts.join('')}}`;
        expect(typeof parsed(text) !== 'string').toBe(isObject(text));
      }),
      { numRuns: 1_000 },
    );
  });
});
