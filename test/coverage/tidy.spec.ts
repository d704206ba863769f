import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

import { tidyRules } from './tidy.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const walked = ['src', 'cli', 'test', 'bench', 'scripts'];
const isText = /\.([cm]?[jt]s|json|md|ya?ml|sh|sql|html|css|txt|py|toml)$/;

const files = walked
  .filter((folder) => existsSync(join(root, folder)))
  .flatMap((folder) => readdirSync(join(root, folder), { recursive: true, withFileTypes: true }))
  .filter((entry) => entry.isFile() && isText.test(entry.name) && !entry.parentPath.includes(`${sep}node_modules`))
  .map((entry) => relative(root, join(entry.parentPath, entry.name)).replaceAll(sep, '/'))
  .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }));

// The words are put together, so that this file does not break the rules itself.
const marker = ['TO', 'DO'].join('');
const only = ['on', 'ly'].join('');
const home = ['', 'root', ''].join('/');

/** A sample for each rule that breaks it: the file's name and text, and the line on which it must be found. */
const bad: Record<string, { path: string; text: string; line: number }> = {
  'no function is longer than 70 lines': { path: 'src/a.ts', text: `\nfunction f() {\n${'f();\n'.repeat(70)}}\n`, line: 2 },
  'no file is longer than 400 lines': { path: 'src/a.ts', text: 'f();\n'.repeat(401), line: 401 },
  'no constructor takes more than 5 parameters': {
    path: 'src/a.ts',
    text: 'class A {\n  constructor(a: 1, b: 1, c: 1, d: 1, e: 1, f: 1) {}\n}\n',
    line: 2,
  },
  'no marker of unfinished work is left over': { path: 'bench/a.md', text: `fine\n// ${marker}: later\n`, line: 2 },
  'no test is singled out or left out': { path: 'src/a.spec.ts', text: `\n\nit.${only}('works', f);\n`, line: 3 },
  'no test sleeps': {
    path: 'src/a.spec.ts',
    text: 'it("waits", async () => {\n  await new Promise((done) => setTimeout(done, 50));\n});\n',
    line: 2,
  },
  'the product waits by `pause` of kernel/async': {
    path: 'src/a.ts',
    text: "f();\nimport { setTimeout as wait } from 'node:timers/promises';\n",
    line: 2,
  },
  'the product writes to its log, not to the console': { path: 'src/a.ts', text: "console.log('here');\n", line: 1 },
  'no path of one machine is named': { path: 'scripts/a.sh', text: `cd ${home}mooring\n`, line: 1 },
  'no route takes more than 3 parameters': {
    path: 'src/a.controller.ts',
    text: 'class A {\n  constructor(a: 1, b: 1, c: 1, d: 1) {}\n  @Get()\n  all(@B() a: 1, @B() b: 1, @B() c: 1, @B() d: 1) {}\n}\n',
    line: 3,
  },
  "the framework's requests and responses are known only in http/": {
    path: 'src/a.controller.ts',
    text: 'class A {\n  f(@Res() reply: object) {}\n}\n',
    line: 2,
  },
  "an agent's stream is named only in agent-stream.ts and sandbox-id.ts": {
    path: 'src/a.ts',
    text: 'f();\nload(`agent-${agentId}`);\n',
    line: 2,
  },
  'no comment begins with the rest of a sentence': { path: 'src/a.ts', text: 'f();\n/**\n * Of the container.\n */\ng();\n', line: 2 },
  'private members are marked `private`': { path: 'src/a.ts', text: 'class A {\n  #b = 1;\n}\n', line: 2 },
  'a command is declared in *.commands.ts, and a query in *.queries.ts': {
    path: 'src/a.commands.ts',
    text: 'export class A extends Command<void> {}\nexport class B extends Query<string> {}\n',
    line: 2,
  },
  'a bound is named in capitals, with its unit': { path: 'src/a.ts', text: 'const PAGE = 5;\nconst retryMs = 2 * 50;\n', line: 2 },
  'the product ends work after a time by `timeoutSignal` of kernel/async': {
    path: 'src/a.ts',
    text: 'f();\nconst over = AbortSignal.timeout(5);\n',
    line: 2,
  },
  'a class bears the name of its file and its role': { path: 'src/a/boats.saga.ts', text: 'f();\nexport class BoatSaga {}\n', line: 2 },
  'the name of a bound ends in MAX or MIN': { path: 'src/a.ts', text: 'const PAGE_MAX = 5;\nconst RETRY_MAX_MS = 5;\n', line: 2 },
  "the engine's calls on files of containers are made in engine/archive.ts alone": {
    path: 'src/runtime/docker/a.ts',
    text: "import { fileIn } from '../engine/archive.ts';\nawait container.putArchive(tar, { path });\n",
    line: 2,
  },
  'a saga registers itself': { path: 'src/a.module.ts', text: 'f();\nsagas.register(boats);\n', line: 2 },
  'a class of a body, a query or a response ends in Dto': { path: 'src/a.dto.ts', text: 'f();\nexport class AgentView {\n}\n', line: 2 },
  'a method is named by the standard verb of what it does': { path: 'src/a.ts', text: 'class A {\n  take(): void {}\n}\n', line: 2 },
  'no injected member is public': {
    path: 'src/a.service.ts',
    text: '@Injectable()\nclass A {\n  constructor(\n    private readonly b: B,\n    readonly c: C,\n  ) {}\n}\n',
    line: 5,
  },
  'every file ends with a newline': { path: 'src/a.ts', text: 'f();\ng();', line: 2 },
};

/** A sample for each rule that looks similar but must pass. */
const good: Record<string, { path: string; text: string }> = {
  'no function is longer than 70 lines': {
    path: 'src/a.spec.ts',
    text: `describe('a', () => {\n${"it('b', () => f());\n".repeat(80)}});\n`,
  },
  'no test is singled out or left out': { path: 'src/a.spec.ts', text: 'rows.skip(3);\nfit.for(2);\n' },
  'no test sleeps': {
    path: 'src/a.spec.ts',
    text: 'const ended = new Promise((done, late) => {\n  child.once("exit", done);\n  setTimeout(late, 500);\n});\n',
  },
  'a class bears the name of its file and its role': {
    path: 'src/a/boat-hires.service.ts',
    text: 'export class NoBoat extends Error {}\nexport class BoatHires {}\n',
  },
  'the product waits by `pause` of kernel/async': {
    path: 'src/a.ts',
    text: "import { setImmediate as turn } from 'node:timers/promises';\nawait turn();\n",
  },
  'a method is named by the standard verb of what it does': {
    path: 'src/a.ts',
    text: 'class A {\n  acquire(): void {\n    this.a.take();\n  }\n}\n',
  },
  'no injected member is public': {
    path: 'src/a.service.ts',
    text: '@Injectable()\nclass A {\n  constructor(\n    protected readonly b: B,\n    c: C,\n  ) {}\n}\nclass D extends Query<E> {\n  constructor(readonly f: F) {}\n}\n',
  },
  'private members are marked `private`': { path: 'src/a.ts', text: 'class A {\n  private b = 1;\n}\nconst c = "#d";\n' },
  'a bound is named in capitals, with its unit': {
    path: 'src/a.ts',
    text: 'const RETRY_MS = 5;\nconst names = 2 * count();\nf(() => {\n  const local = 1;\n});\n',
  },
  'no comment begins with the rest of a sentence': {
    path: 'src/a.ts',
    text: '/** Offers what there is. */\nf();\n// The first line goes on\n// as a second one.\ng();\n',
  },
  'no path of one machine is named': { path: 'src/a.ts', text: "get('/api/work/1');\nopen('./root/a');\n" },
};

describe('the tree is tidy', () => {
  /** Maps each rule to what breaks it. All rules look at a file before the next one, so that it is parsed once. */
  const broken = new Map(tidyRules.map(({ name }): [string, string[]] => [name, []]));

  beforeAll(() => {
    for (const { path, text } of files)
      for (const { name, applies, check } of tidyRules)
        if (applies(path)) broken.get(name)?.push(...check(text, path).map(({ line, what }) => `${path}:${line} ${what}`));
  });

  it('names the files of one family after one stem, the plural', () => {
    const named = files.flatMap(({ path }) => /^(src\/.+\/)([\w-]+)\.(?!d\.|m?ts$)[\w.-]+\.ts$/.exec(path)?.slice(1, 3).join('') ?? []);
    const stems = new Set(named);
    expect([...stems].filter((stem) => stems.has(`${stem}s`))).toEqual([]);
  });

  it('finds the files', () => {
    expect(files.map(({ path }) => path)).toContain('test/coverage/tidy.spec.ts');
  });

  describe.each(tidyRules)('$name', ({ name, applies, check }) => {
    it('holds everywhere', () => {
      expect(broken.get(name)).toEqual([]);
    });

    it('finds a bad sample and accepts a good one', () => {
      const sample = bad[name];
      expect(sample).toBeDefined();
      if (!sample) return;
      expect(applies(sample.path)).toBe(true);
      expect(check(sample.text, sample.path).map(({ line }) => line)).toEqual([sample.line]);
      const fine = good[name] ?? { path: sample.path, text: 'export const fine = 1;\n' };
      expect(check(fine.text, fine.path)).toEqual([]);
    });
  });
});
