import { expectLinear, filled } from '../../../test/support/growth.ts';
import { RuntimeRefused } from '../../runtime/runtime.errors.ts';
import { planOf } from './plan-project.ts';

const texts = [
  'Procfile',
  'requirements.txt',
  'pyproject.toml',
  'Pipfile',
  'main.py',
  'package.json',
  'langgraph.json',
  'yarn.lock',
  'pnpm-lock.yaml',
];
/** A quarter of the most that is read: a square of it takes tens of seconds. */
const SIZE = 64 * 1024;
/** The beginnings after which a file is read on, and the ends that may make it no match. */
const frames: Record<string, [string, string][]> = {
  Procfile: [
    ['web: x', 'y'],
    ['web:', '\rx'],
    ['web: node "', '"'],
    ['web: A=', ''],
    ['web: x ${A:-', ''],
  ],
  Pipfile: [['[packages]\na = "', '"']],
  'main.py': [
    ['', 'app = Flask()'],
    ['a', '= Flask('],
  ],
  'requirements.txt': [['', '#']],
  'pyproject.toml': [
    ['[project]\ndependencies = [', ']'],
    ['[tool.poetry.a', ']\nb = 1'],
    ['a = "', '"'],
    ['a = ', ''],
  ],
  'package.json': [
    ['{"scripts":{"start":"x', '"}}'],
    ['{"devDependencies":{"x":"1"},"scripts":{"start":"x', '"}}'],
    ['{"dependencies":{"a":"', '"}}'],
    ['{"packageManager":"npm@', '"}'],
    ['{"a":', '}'],
  ],
  'langgraph.json': [
    ['{"graphs":{"a":"', '.py:x"}}'],
    ['{"dependencies":["', '"],"graphs":{"a":"./a.py"}}'],
  ],
};
const units = [
  ' ',
  '\t',
  '\n',
  '\r',
  '\r\n',
  ' \n',
  'a',
  '1',
  '-',
  '.',
  '/',
  ':',
  '.a',
  '$PORT ',
  '${PORT}',
  "''",
  '\\"',
  ', ',
  '[',
  '{',
  '{"a":',
  'a=b ',
  '"", ',
  '#\n',
  'a\n',
];

function read(name: string, text: string): void {
  const others = ['pyproject.toml', 'requirements.txt', 'Pipfile'].includes(name)
    ? ['main.py']
    : name.endsWith('lock.yaml')
      ? ['package.json']
      : [];
  const given = new Map([
    ...others.map((other) => [other, '{}'] as const),
    [name, text] as const,
    ...(name === 'yarn.lock' ? [['package.json', '{"scripts":{"start":"a"}}'] as const] : []),
  ]);
  try {
    planOf({ names: new Set(given.keys()), texts: given });
  } catch (error) {
    expect(error).toBeInstanceOf(RuntimeRefused);
  }
}

describe('a file of a project', () => {
  it.each(texts)('%s is read or refused in time that grows with its size alone, whatever it repeats', (name) => {
    for (const [before, after] of frames[name] ?? [['', '']])
      for (const unit of units)
        expectLinear(
          (size) => `${before}${filled(unit, size)}${after}`,
          (text) => read(name, text),
          SIZE,
        );
  });

  it('may name as many packages and words as it can hold', () => {
    const project = (size: number) => {
      const words = Array.from({ length: size / 16 }, (_, at) => `w${at}`);
      const devDependencies = Object.fromEntries(words.map((word) => [`d${word}`, '1']));
      return JSON.stringify({ scripts: { start: words.join(' ') }, devDependencies });
    };
    expectLinear(project, (text) => read('package.json', text), SIZE);
  });

  it('may have tables that are nested deeper than a function can call itself', () => {
    const project = (inner: string) => ({
      names: new Set(['main.py', 'pyproject.toml']),
      texts: new Map([['pyproject.toml', `[project]\ndependencies = []\n[tool.poetry${filled('.a', 120_000)}]\n${inner} = 1\n`]]),
    });
    expect(planOf(project('b')).manifests).toEqual(['pyproject.toml']);
    expect(planOf(project('path')).manifests).toEqual(['.']);
  });
});
