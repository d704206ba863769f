import fc from 'fast-check';

import { parseDockerfile } from './dockerfile-parser.ts';
import { assignmentWords, expand } from './dockerfile-words.ts';

const word = fc.stringMatching(/^[a-z][a-z0-9/.:]{0,8}$/);
const flag = fc.record({ name: fc.stringMatching(/^[a-z][a-z-]{0,6}$/), value: fc.option(fc.stringMatching(/^[a-z0-9:=,.@+/]{1,8}$/)) });
const heredoc = fc.record({
  name: fc.stringMatching(/^[A-Z]{1,4}$/),
  quote: fc.constantFrom('', '"', "'"),
  isIndented: fc.boolean(),
  lines: fc.array(fc.constantFrom('ADD http://a /x', '', '# no comment', 'FROM b \\', 'E O F', '<<X'), { maxLength: 3 }),
});
const instruction = fc.record({
  name: fc.constantFrom('RUN', 'copy', 'Add', 'CMD', 'ONBUILD run', 'USER'),
  flags: fc.array(flag, { maxLength: 3 }),
  words: fc.array(word, { minLength: 1, maxLength: 4 }),
  heredocs: fc.array(heredoc, { maxLength: 2 }),
});
const layout = fc.record({
  escape: fc.constantFrom('\\', '`'),
  lineEnd: fc.constantFrom('\n', '\r\n'),
  gaps: fc.infiniteStream(fc.constantFrom(' ', '\t ', ' E\n', ' E\n  # a comment\n\t', 'E\n\n ')),
  between: fc.infiniteStream(fc.constantFrom('', '\n', '# ADD x\n', '\t#\n')),
});
const takesHeredocs = (name: string) => !/cmd|user/i.test(name);

describe('the instructions of a Dockerfile', () => {
  it('are found as they were written, however their lines are broken and whatever comments and here-documents are between', () => {
    fc.assert(
      fc.property(fc.array(instruction, { minLength: 1, maxLength: 5 }), layout, (written, { escape, lineEnd, gaps, between }) => {
        const gap = () => (gaps.next().value as string).replace('E', escape);
        let text = escape === '\\' ? '' : '# escape=`\n';
        const lines: number[] = [];
        for (const { name, flags, words, heredocs } of written) {
          text += between.next().value as string;
          lines.push(text.split('\n').length);
          const given = takesHeredocs(name) ? heredocs : [];
          const parts = [
            name,
            ...flags.map((each) => `--${each.name}${each.value === null ? '' : `=${each.value}`}`),
            ...words,
            ...given.map((each) => `<<${each.isIndented ? '-' : ''}${each.quote}${each.name}${each.quote}`),
          ];
          text += parts.reduce((joined, part) => joined + gap() + part) + '\n';
          for (const each of given) text += [...each.lines, `${each.isIndented ? '\t\t' : ''}${each.name}\n`].join('\n');
        }
        const found = parseDockerfile(text.replaceAll('\n', lineEnd));
        expect(found.escape).toBe(escape);
        expect(found.instructions.map(({ line }) => line)).toEqual(lines);
        const read = found.instructions.map((each) => {
          const inner = each.trigger ?? each;
          const words = inner.text.split(/\s+/);
          if (inner.name === 'ADD') expect(inner.words).toEqual(words);
          return [inner.name, inner.flags, words.slice(0, words.length - each.heredocs.length), each.heredocs];
        });
        const wanted = written.map(({ name, flags, words, heredocs }) => [
          name.split(' ').at(-1)?.toUpperCase(),
          flags,
          words,
          takesHeredocs(name) ? heredocs.map((each) => each.name) : [],
        ]);
        expect(read).toEqual(wanted);
      }),
    );
  });

  it('are not found in text that only looks like a here-document', () => {
    const names = (text: string) => parseDockerfile(text).instructions.map(({ name, heredocs }) => [name, ...heredocs].join(' '));
    expect(names('RUN ["cat", "<<EOF"]\nUSER a')).toEqual(['RUN', 'USER']);
    expect(names('CMD <<EOF\nUSER a')).toEqual(['CMD', 'USER']);
    expect(names('RUN cat <<<a "<<b" x<<c \\<<d <<\nUSER a')).toEqual(['RUN', 'USER']);
    expect(names('RUN cat 3<<"a b" <<\tE$X <<- Y\n E\n\ta b\na b\n\tE$X\nE$X\nUSER a')).toEqual(['RUN a b E$X', 'USER']);
  });

  it('end a here-document at a line that consists of its word only', () => {
    expect(() => parseDockerfile('RUN <<EOF\n EOF\nEOF \n\tEOF\nEOFX')).toThrow(/^Line 1 .*"EOF" without its end/);
    expect(() => parseDockerfile('RUN <<-EOF\n EOF')).toThrow(/without its end/);
  });
});

describe('a word of a Dockerfile', () => {
  const variables = new Map([
    ['X', 'one'],
    ['EMPTY', ''],
  ]);

  it.each<[string, string]>([
    ['a$X', 'aone'],
    ['${X}b', 'oneb'],
    ['${Y:-two}${Y-three}${EMPTY:-four}${EMPTY-five}', 'twothreefour'],
    ['${X:+a}${EMPTY:+b}${EMPTY+c}${Y+d}', 'ac'],
    ['${Y:-${X:-a}${Z:-"b c"}}', 'oneb c'],
    ['"$X"\'$X\'\\$X', 'one$X$X'],
    ['"a\\"b\\c\\$X"', 'a"b\\c$X'],
    ['$Y$', '$'],
  ])('%j is read as %j', (written, read) => expect(expand(written, { escape: '\\', variables }).text).toBe(read));

  it('is the original word, however it was quoted', () => {
    const text = fc.string({ unit: 'grapheme', maxLength: 20 }).filter((each) => !each.includes('\ufeff'));
    const quoted: ((text: string) => string)[] = [
      (each) => `"${each.replaceAll(/["$\\]/g, '\\$&')}"`,
      (each) => each.replaceAll(/./gsu, '\\$&'),
      (each) =>
        each
          .split("'")
          .map((part) => `'${part}'`)
          .join("\\'"),
    ];
    fc.assert(
      fc.property(text, fc.constantFrom(...quoted), (each, quote) => {
        expect(expand(quote(each), { escape: '\\', variables }).text).toBe(each);
      }),
    );
  });

  it('ends at a space that is not quoted', () => {
    expect(assignmentWords('A="b c"  D=\'e f\'\tG=h\\ i J', '\\')).toEqual(['A="b c"', "D='e f'", 'G=h\\ i', 'J']);
  });
});
