import fc from 'fast-check';

import { expectLinear, FILE_SIZE, filled } from '../../../test/support/growth.ts';
import { basesOf } from './dockerfile-bases.ts';

const pieces =
  'ONBUILD |RUN |FROM a|ARG |ARG A|ENV A=|LABEL |ADD |COPY --from=|--a|a |b=c |$A|${A:-|${|}|"|\'|\\|`|[|]|,|"a",|<<E |<<|E|=|/|.|:|@|a-|#|# escape=`|\t| |  |\r|\\\n|\n|\n\n|é|\u00a0'.split(
    '|',
  );
const beginnings = [
  'FROM a\n',
  'FROM a\nENV A=',
  'FROM a\nRUN ',
  'FROM a\nONBUILD RUN ',
  'FROM a\nADD ',
  'FROM a\nARG ',
  'ARG ',
  '# escape=`\nFROM a\n',
  '',
];
const shape = fc.record({
  beginning: fc.constantFrom(...beginnings),
  /** The length of a value that lines after it may take in. */
  value: fc.constantFrom(0, 8_000, 16_000, 60_000),
  unit: fc.array(fc.constantFrom(...pieces), { minLength: 1, maxLength: 6 }).map((found) => found.join('')),
  /** Lines are bounded, so that most long texts have to go on in the next line. */
  width: fc.constantFrom(1, 40, 30_000),
  between: fc.constantFrom('', '\\\n', '\n'),
  end: fc.constantFrom('', 'x', '\nE\n', '"', '}'),
});

function read(text: string): void {
  for (const builder of ['buildkit', 'engine'] as const)
    try {
      basesOf(text, builder);
    } catch (error) {
      expect(error).toMatchObject({ name: 'RepositoryRefused' });
    }
}

describe('a Dockerfile of 256 KiB', () => {
  it('is read or refused in time that grows with its size alone, whatever its shape', () => {
    fc.assert(
      fc.property(shape, ({ beginning, value, unit, width, between, end }) => {
        const textOf = (size: number) => {
          const before = value === 0 ? beginning : `FROM a\nENV A=${'a'.repeat(value)}\nARG B='$A\n${beginning}`;
          return before + filled(filled(unit, width) + between, size - before.length) + end;
        };
        expectLinear(textOf, read);
      }),
      { numRuns: 40 },
    );
  });

  it.each<[string, (size: number) => string]>([
    ['triggers in triggers', (size) => `FROM a\n${filled('ONBUILD \\\n', size / 4)}RUN ${filled('a \\\n', size / 2)}`],
    ['a trigger of many words', (size) => `FROM a\nONBUILD RUN ${filled('a \\\n', size)}`],
    ['values that are read in vain', (size) => `FROM a\nENV A=${'a'.repeat(16_000)}\n${filled("ENV B=$A'\n", size)}`],
    ['values that are too long', (size) => `FROM a\nENV A=${'a'.repeat(9_000)}\n${filled('ENV B=$A$A\n', size)}`],
    ['values from before FROM', (size) => `ARG A=\\'${'a'.repeat(16_000)}\nFROM a\n${filled('ARG A\n', size)}`],
    ['one line of many arguments', (size) => `ARG ${Array.from({ length: size / 10 }, (_, at) => `a${at}=b`).join(' \\\n')}\nFROM a`],
  ])('is read or refused in time that grows with its size alone: %s', (_, textOf) => {
    expectLinear(textOf, read);
  });

  it('may have no trigger in a trigger, which would be read once more for each', () => {
    for (const written of [
      'ONBUILD ONBUILD RUN a',
      'onbuild OnBuild\tRUN a',
      'ONBUILD ONBUILD',
      `${filled('ONBUILD \\\n', FILE_SIZE)}RUN a`,
    ])
      expect(() => basesOf(`FROM a\n${written}`, 'buildkit')).toThrow('Line 2 of the Dockerfile has ONBUILD in an ONBUILD.');
    // The builder reads this as a word that begins like one.
    expect(() => basesOf('FROM a\nONBUILD ONBUILDS', 'buildkit')).toThrow('has an unknown instruction: "ONBUILDS".');
  });

  it('may name a thousand files in one ADD', () => {
    expect(basesOf(`FROM a\nADD ${filled('b ', 2_000)}/c`.replace('b /c', '/c'), 'buildkit')).toEqual(['a']);
    expect(() => basesOf(`FROM a\nADD ${filled('b ', 2_000)}/c`, 'buildkit')).toThrow('has ADD with more than 1000 words.');
  });
});
