import fc from 'fast-check';

import { commandOf } from './command-words.ts';

describe('a command line that is started without a shell', () => {
  it.each<[string, string[]]>([
    ['node  a.js', ['node', 'a.js']],
    [`a 'b "c' "d 'e"f`, ['a', 'b "c', "d 'ef"]],
    ['a "" b', ['a', '', 'b']],
    ['a --x=$PORT "${PORT}" \'$PORT\'', ['a', '--x=80', '80', '$PORT']],
  ])('%j has these words', (line, words) => {
    expect(commandOf(line, { PORT: '80' })?.words).toEqual(words);
  });

  it.each([
    '',
    'a|b',
    'a && b',
    'a;b',
    'a > b',
    '$(a)',
    '`a`',
    'a $B',
    'a "$B"',
    'a "$"',
    'a *',
    'a\\ b',
    'a "b',
    '~/a',
    'a # b',
    'cd x',
    '. x',
    'A=1',
    'PATH=x a',
    'sh -c a',
    'a "b\nc"',
    '/bin/bash -ec a',
    '-x',
  ])('%j needs one', (line) => {
    expect(commandOf(line)).toBeNull();
  });

  it('keeps each quoted word as it is', () => {
    const word = fc.string({ unit: 'grapheme' }).filter((text) => !/['\p{Cc}]/u.test(text));
    fc.assert(
      fc.property(fc.array(word), (words) => {
        expect(commandOf(['run', ...words.map((text) => `'${text}'`)].join(' '))?.words).toEqual(['run', ...words]);
      }),
    );
  });
});
