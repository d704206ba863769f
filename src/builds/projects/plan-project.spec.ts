import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import fc from 'fast-check';

import { RuntimeRefused } from '../../runtime/runtime.errors.ts';
import { commandOf } from './command-words.ts';
import { planOf, planProject } from './plan-project.ts';

const plan = (files: Record<string, string>, port = 8080) =>
  planOf({ names: new Set(Object.keys(files)), texts: new Map(Object.entries(files)) }, port);
const json = (value: object) => JSON.stringify(value);
const node = json({ main: 'agent.js', dependencies: { ms: '^2' } });
const manager = 'npm install --prefix .mooring-manager --no-save --no-package-lock --no-audit --no-fund ';
const commandsOf = (line: string) => line.split(' && ').map((command) => command.split(' '));
const crew = '[project]\ndependencies = ["crewai"]\n[tool.crewai]\ntype = "crew"\n';

describe('a project without a Dockerfile', () => {
  it.each<[string, Record<string, string>, string, string[]]>([
    [
      'the script start',
      { 'package.json': json({ scripts: { start: 'node --no-warnings a.js' }, main: 'x.js' }) },
      'a Node project (package.json)',
      ['node', '--no-warnings', 'a.js'],
    ],
    [
      'a script that needs a shell',
      { 'package.json': json({ scripts: { start: 'node a.js | tee log' } }) },
      'a Node project (package.json)',
      ['npm', 'start'],
    ],
    [
      'a script with a step before it',
      { 'package.json': json({ scripts: { prestart: 'x', start: 'node a.js' } }) },
      'a Node project (package.json)',
      ['npm', 'start'],
    ],
    [
      'a script that calls a script',
      { 'package.json': json({ scripts: { start: 'yarn run serve', serve: 'next start' } }) },
      'a Node project (package.json)',
      ['next', 'start'],
    ],
    [
      'scripts that call each other',
      { 'package.json': json({ scripts: { start: 'npm run a', a: 'npm start' } }) },
      'a Node project (package.json)',
      ['npm', 'start'],
    ],
    ['main', { 'package.json': node, 'index.js': '' }, 'a Node project (package.json)', ['node', 'agent.js']],
    ['index.js', { 'package.json': '{}', 'index.js': '', 'server.js': '' }, 'a Node project (package.json)', ['node', 'index.js']],
    ['server.js', { 'package.json': '{}', 'server.js': '' }, 'a Node project (package.json)', ['node', 'server.js']],
    ['main.py', { 'requirements.txt': '', 'main.py': '', 'app.py': '' }, 'a Python project (requirements.txt)', ['python', 'main.py']],
    ['app.py', { 'app.py': '' }, 'a Python project (no list of packages)', ['python', 'app.py']],
    [
      'Procfile',
      { Procfile: 'worker: x\nweb: gunicorn "app:make()" -b 0.0.0.0:$PORT\n', 'requirements.txt': 'gunicorn' },
      'a Procfile with web, and a Python project (requirements.txt)',
      ['gunicorn', 'app:make()', '-b', '0.0.0.0:8080'],
    ],
    [
      'Procfile of both languages',
      { Procfile: 'web: node a.js', 'requirements.txt': '', 'package.json': '{}' },
      'a Procfile with web, and a Node project (package.json)',
      ['node', 'a.js'],
    ],
    ['Procfile alone', { Procfile: 'web: exec node a.js' }, 'a Procfile with web, and a Node program without packages', ['node', 'a.js']],
    [
      'langgraph.json',
      { 'langgraph.json': json({ graphs: { a: './a.ts:graph' } }), 'package.json': node, Procfile: 'web: x' },
      'a LangGraph project in JavaScript (langgraph.json)',
      ['node', '.mooring/serve.mjs'],
    ],
    [
      'a crew',
      { 'pyproject.toml': crew, Procfile: 'web: x', 'package.json': node },
      'a crewAI project (pyproject.toml)',
      ['python', '.mooring/serve.py'],
    ],
    [
      'openclaw',
      { 'package.json': json({ dependencies: { openclaw: '*' } }) },
      'an OpenClaw project (package.json)',
      ['node', '.mooring/serve.mjs'],
    ],
    ['openclaw.json', { 'openclaw.json': '' }, 'an OpenClaw project (openclaw.json)', ['node', '.mooring/serve.mjs']],
  ])('is recognized and started by %s', (_, files, found, start) => {
    expect(plan(files)).toMatchObject({ found, start });
  });

  it.each<[string, Record<string, string>, string]>([
    ['nothing that is known', { 'index.js': '' }, 'these were looked for: Dockerfile, langgraph.json'],
    ['both languages', { 'package.json': '{}', 'main.py': '' }, 'both a Node and a Python project'],
    ['a Procfile that needs a shell', { Procfile: 'web: cd x && node a.js' }, 'needs a shell'],
    ['a Procfile with an unknown variable', { Procfile: 'web: node a.js $HOME' }, 'needs a shell'],
    ['a Procfile with a shell', { Procfile: 'web: bash -lc "node a.js"' }, 'needs a shell'],
    ['a Procfile with a program of no known language', { Procfile: 'web: ./serve' }, 'not clear in which language'],
    ['a manifest that is no object', { 'package.json': '[]' }, 'package.json is not a JSON object'],
    ['TOML that is broken', { 'pyproject.toml': '[', 'main.py': '' }, 'pyproject.toml is not valid TOML'],
    ['no start in Node', { 'package.json': '{}' }, 'a script "start"'],
    ['no start in Python', { 'requirements.txt': '' }, 'give it a main.py'],
    [
      'an option for a requirement',
      { 'pyproject.toml': '[project]\ndependencies = ["--index-url=x"]', 'main.py': '' },
      'names a package that is none',
    ],
    ['graphs of two languages', { 'langgraph.json': json({ graphs: { a: 'a.py:x', b: 'b.ts:x' } }) }, 'graphs of one language'],
    [
      'graphs that lie outside',
      { 'langgraph.json': json({ graphs: { a: 'a.py:x' }, dependencies: ['./../x'] }) },
      'outside of the project',
    ],
  ])('with %s is refused in a sentence', (_, files, sentence) => {
    expect(() => plan(files)).toThrow(RuntimeRefused);
    expect(() => plan(files)).toThrow(sentence);
  });

  it.each<[string, Record<string, string>, string[], string]>([
    ['no lock file', { 'package.json': node }, ['package.json'], 'npm install --omit=dev --no-audit --no-fund'],
    [
      'package-lock.json',
      { 'package.json': node, 'package-lock.json': '', '.npmrc': '' },
      ['package.json', 'package-lock.json', '.npmrc'],
      'npm ci --omit=dev --no-audit --no-fund',
    ],
    [
      'pnpm-lock.yaml',
      { 'package.json': node, 'pnpm-lock.yaml': "lockfileVersion: '9.0'\n" },
      ['package.json', 'pnpm-lock.yaml'],
      `${manager}pnpm@10 && pnpm install --frozen-lockfile --prod`,
    ],
    [
      'an old pnpm-lock.yaml',
      { 'package.json': node, 'pnpm-lock.yaml': "lockfileVersion: '6.0'\n" },
      ['package.json', 'pnpm-lock.yaml'],
      `${manager}pnpm@8 && pnpm install --frozen-lockfile --prod`,
    ],
    [
      'yarn.lock',
      { 'package.json': node, 'yarn.lock': '# yarn lockfile v1\n' },
      ['package.json', 'yarn.lock'],
      `${manager}yarn@1 && yarn install --frozen-lockfile --non-interactive --production=true`,
    ],
    [
      'a newer yarn.lock',
      { 'package.json': json({ main: 'a', packageManager: 'yarn@4.1.0+x', dependencies: { ms: '2' } }), 'yarn.lock': '#\n__metadata:\n' },
      ['package.json', 'yarn.lock'],
      `${manager}@yarnpkg/cli-dist@4.1.0 && yarn install --immutable`,
    ],
    [
      'the yarn.lock of an earlier version',
      { 'package.json': node, 'yarn.lock': '__metadata:\n  version: 6\n' },
      ['package.json', 'yarn.lock'],
      `${manager}@yarnpkg/cli-dist@3 && yarn install --immutable`,
    ],
    [
      'bun.lock',
      { 'package.json': node, 'bun.lock': '{}' },
      ['package.json', 'bun.lock'],
      `${manager}bun@1 && bun install --frozen-lockfile --production`,
    ],
    [
      'packageManager, whatever other lock files there are',
      { 'package.json': json({ main: 'a', packageManager: 'npm@10.8.2' }), 'package-lock.json': '', 'yarn.lock': '', 'pnpm-lock.yaml': '' },
      ['package.json', 'package-lock.json', 'yarn.lock', 'pnpm-lock.yaml'],
      'npm ci --omit=dev --no-audit --no-fund',
    ],
    [
      'packageManager without a lock file',
      { 'package.json': json({ main: 'a', packageManager: 'pnpm@10.12.1+sha512.0a', dependencies: { ms: '2' } }), 'package-lock.json': '' },
      ['package.json', 'package-lock.json'],
      `${manager}pnpm@10.12.1 && pnpm install --no-frozen-lockfile --prod`,
    ],
    [
      'devEngines',
      { 'package.json': json({ main: 'a', devEngines: { packageManager: { name: 'yarn', version: '^4.1' } }, dependencies: { ms: '2' } }) },
      ['package.json'],
      `${manager}@yarnpkg/cli-dist@4.1 && yarn install --no-immutable`,
    ],
    [
      'the manager that its scripts call',
      { 'package.json': json({ scripts: { start: 'yarn serve', serve: 'node a.js' }, dependencies: { ms: '2' } }) },
      ['package.json'],
      `${manager}yarn@1 && yarn install --non-interactive --production=true`,
    ],
    [
      'packages of its own',
      { 'package.json': json({ main: 'a', dependencies: { own: 'file:own' } }) },
      ['.'],
      'npm install --omit=dev --no-audit --no-fund',
    ],
    [
      'a script at the installation',
      { 'package.json': json({ main: 'a', scripts: { postinstall: 'x' } }) },
      ['.'],
      'npm install --omit=dev --no-audit --no-fund',
    ],
  ])('in Node is installed by %s', (_, files, manifests, command) => {
    expect(plan(files)).toMatchObject({ language: 'node', manifests, install: commandsOf(command), build: [] });
  });

  it('in Node that is built has its development packages for the build only', () => {
    const files = { 'package.json': json({ scripts: { build: 'tsc', start: 'NODE_ENV=test node a' }, devDependencies: { x: '1' } }) };
    expect(plan(files)).toMatchObject({
      install: [['npm', 'install', '--include=dev', '--no-audit', '--no-fund']],
      build: [
        ['npm', 'run', 'build'],
        ['npm', 'prune', '--omit=dev', '--ignore-scripts', '--no-audit', '--no-fund'],
      ],
      env: { NODE_ENV: 'test' },
    });
  });

  it('in Node has its manager on PATH for the build, which that manager runs', () => {
    const scripts = { build: 'pnpm run compile && pnpm run copy', compile: 'tsc', copy: 'cp a b', start: 'node dist/a.js' };
    const files = { 'package.json': json({ scripts, devDependencies: { typescript: '5' } }), 'pnpm-lock.yaml': '' };
    expect(plan(files)).toMatchObject({
      install: commandsOf(`${manager}pnpm@10 && pnpm install --frozen-lockfile --prod=false`),
      build: commandsOf('pnpm run build && pnpm prune --prod --ignore-scripts --config.confirmModulesPurge=false'),
      start: ['node', 'dist/a.js'],
    });
  });

  it.each<[string, object, string]>([
    ['a program of theirs', { start: 'tsx server.ts' }, 'tsx'],
    ['a program of theirs by a script', { start: 'npm run serve', serve: 'nodemon dist/main.js' }, 'nodemon'],
    ['a program of another name', { start: 'nest start' }, 'nest'],
    ['a program before the start', { prestart: 'prisma migrate deploy', start: 'node a.js' }, 'prisma'],
    ['a program among others', { start: 'NODE_ENV=production cross-env A=1 tsx a.ts | cat' }, 'tsx'],
    ['a package in an option', { start: 'node -r tsx/register a.ts' }, 'tsx'],
    ['a package in a setting', { start: 'NODE_OPTIONS=--import=tsx node a.ts' }, 'tsx'],
    ['a script of a member', { start: 'pnpm --filter api start' }, 'pnpm --filter'],
    ['a script of a member with the same name', { start: 'npm start --workspace api' }, 'npm start'],
  ])('in Node keeps the packages of the development if the start needs %s', (_, scripts, need) => {
    const files = {
      'package.json': json({ scripts, dependencies: { ms: '2' }, devDependencies: { tsx: '4', eslint: '9' } }),
      'package-lock.json': '',
    };
    const found = plan(files);
    expect(found).toMatchObject({
      notes: [`Packages of the development stay, since the start calls ${need}`],
      env: { NODE_ENV: 'production' },
    });
    const whole = need.startsWith('pnpm') ? null : [['npm', 'ci', '--include=dev', '--no-audit', '--no-fund']];
    expect(found.install).toEqual(whole ?? found.install);
    expect([...found.install, ...found.build].flat()).not.toContain('prune');
  });

  it.each<[string, object]>([
    ['node', { start: 'node --enable-source-maps dist/a.js' }],
    ['a program of the production', { start: 'ms start -p $PORT' }],
    ['a script of the project', { start: 'mkdir -p /tmp/x && ./run.sh | tee log' }],
  ])('in Node leaves them out if it is started by %s', (_, scripts) => {
    const files = { 'package.json': json({ scripts, dependencies: { ms: '2' }, devDependencies: { tsx: '4' } }) };
    expect(plan(files).install).toEqual(commandsOf('npm install --omit=dev --no-audit --no-fund'));
  });

  it('in Node has them while scripts of its own run at the installation', () => {
    const files = {
      'package.json': json({ main: 'a', scripts: { prepare: 'husky' }, devDependencies: { husky: '9' } }),
      'package-lock.json': '',
    };
    expect(plan(files).install).toEqual(
      commandsOf('npm ci --include=dev --no-audit --no-fund && npm prune --omit=dev --ignore-scripts --no-audit --no-fund'),
    );
  });

  it.each<[string, Record<string, string>, string[]]>([
    ['a file', { 'package.json': json({ scripts: { start: 'bun run server.js' } }), 'bun.lock': '' }, ['bun', 'run', 'server.js']],
    ['a script', { 'package.json': json({ scripts: { start: 'bun serve', serve: 'node a.js' } }), 'bun.lock': '' }, ['node', 'a.js']],
    ['its module', { 'package.json': json({ module: 'agent.ts' }), 'bun.lock': '', 'index.ts': '' }, ['bun', 'agent.ts']],
    ['index.ts', { 'package.json': '{}', 'bun.lock': '', 'index.ts': '' }, ['bun', 'index.ts']],
  ])('for Bun is started by %s', (_, files, start) => {
    expect(plan(files)).toMatchObject({ start });
    expect(plan(files).install[0]).toContain('bun@1');
  });

  it.each<[string, Record<string, string>, string[], string]>([
    ['requirements.txt', { 'requirements.txt': 'a==1\n' }, ['requirements.txt'], '-r requirements.txt'],
    ['requirements.txt that reads files', { 'requirements.txt': 'a\n-r more.txt\n' }, ['.'], '-r requirements.txt'],
    ['requirements.txt with a package of its own', { 'requirements.txt': './own\n' }, ['.'], '-r requirements.txt'],
    ['pyproject.toml', { 'pyproject.toml': '[project]\ndependencies = ["a>1", "b"]\n' }, ['pyproject.toml'], 'a>1 b'],
    ['pyproject.toml without a list', { 'pyproject.toml': '[tool.poetry.dependencies]\nx = "1"\n' }, ['.'], '.'],
    ['uv.lock', { 'pyproject.toml': '[project]\n', 'uv.lock': '' }, ['pyproject.toml', 'uv.lock'], '-r .mooring-requirements.txt'],
    [
      'uv.lock with packages of its own',
      { 'pyproject.toml': '[tool.uv.sources]\na = { path = "a" }\n', 'uv.lock': '' },
      ['.'],
      '-r .mooring-requirements.txt',
    ],
    [
      'poetry.lock',
      { 'pyproject.toml': '[tool.poetry]\n', 'poetry.lock': '' },
      ['pyproject.toml', 'poetry.lock'],
      '-r .mooring-requirements.txt',
    ],
  ])('in Python is installed by %s', (_, files, manifests, packages) => {
    const found = plan({ ...files, 'main.py': '' });
    expect(found).toMatchObject({ language: 'python', manifests });
    expect(found.install[0]).toEqual(['python3', '-m', 'venv', '.venv']);
    expect(found.install).toContainEqual(['pip', 'install', '--no-cache-dir', '--disable-pip-version-check', ...packages.split(' ')]);
  });

  it('of a framework has the packages of its template installed too', () => {
    expect(plan({ 'pyproject.toml': crew, '.mooring/requirements.txt': '' })).toMatchObject({
      framework: 'crewai',
      manifests: ['pyproject.toml', '.mooring/requirements.txt'],
    });
    const { install } = plan({ 'openclaw.json': '', '.mooring/package.json': '', '.mooring/package-lock.json': '' });
    expect(install).toEqual([['npm', 'ci', '--prefix', '.mooring', '--omit=dev', '--no-audit', '--no-fund']]);
  });

  it('of OpenClaw is installed and built with the Node that its template brings, which brings OpenClaw too if the project does not', () => {
    const wrapper = { '.mooring/package.json': '', '.mooring/package-lock.json': '', '.mooring/with-node.mjs': '' };
    const node24 = ['npm', 'ci', '--prefix', '.mooring', '--omit=dev', '--no-audit', '--no-fund'];
    const withNode = ['node', '.mooring/with-node.mjs', 'npm'];
    expect(plan({ ...wrapper, 'openclaw.json': '' })).toMatchObject({
      manifests: Object.keys(wrapper),
      install: [node24, [...withNode, 'install', '--prefix', '.mooring', '--include=dev', '--no-audit', '--no-fund']],
      build: [],
    });
    const own = json({ dependencies: { openclaw: '*' }, scripts: { build: 'tsc' } });
    expect(plan({ ...wrapper, 'package.json': own })).toMatchObject({
      manifests: ['package.json', ...Object.keys(wrapper)],
      install: [node24, [...withNode, 'install', '--include=dev', '--no-audit', '--no-fund']],
      build: [[...withNode, 'run', 'build']],
    });
  });

  describe('in a folder', () => {
    let folder: string;
    beforeEach(async () => {
      folder = await mkdtemp(join(tmpdir(), 'mooring-plan-'));
    });
    afterEach(() => rm(folder, { recursive: true }));

    it('is read from its files, and links are not followed', async () => {
      await writeFile(join(folder, 'requirements.txt'), '');
      await writeFile(join(folder, 'main.py'), '');
      await writeFile(join(folder, 'other.json'), '{}');
      await symlink('other.json', join(folder, 'package.json'));
      await mkdir(join(folder, 'Procfile'));
      expect(await planProject(folder)).toMatchObject({ found: 'a Python project (requirements.txt)' });
    });

    it('is refused if a file to be read is too long', async () => {
      await writeFile(join(folder, 'package.json'), ' '.repeat(256 * 1024 + 1));
      await expect(planProject(folder)).rejects.toThrow('The file package.json has more than 256 KiB.');
    });
  });

  it('has a plan in exec form or is refused, whatever its files contain', () => {
    const scripts = fc.record({ start: fc.string(), build: fc.string(), x: fc.constantFrom('npm start', 'yarn x') }, { requiredKeys: [] });
    const manifest = fc
      .record({ main: fc.string(), scripts, dependencies: fc.dictionary(fc.string(), fc.string()) }, { requiredKeys: [] })
      .map(json);
    const content = fc.oneof(
      fc.string(),
      fc.json(),
      manifest,
      fc.string().map((text) => `web: ${text}`),
      fc.constantFrom(crew, '[project]\n'),
    );
    const names = [
      'package.json',
      'langgraph.json',
      'pyproject.toml',
      'Procfile',
      'requirements.txt',
      'main.py',
      'index.js',
      'uv.lock',
      'yarn.lock',
    ];
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom(...names), content), (files) => {
        try {
          const found = plan(files);
          for (const command of [found.start, ...found.install, ...found.build]) {
            expect(command.length).toBeGreaterThan(0);
            expect(command[0]).not.toBe('');
          }
          expect(found.manifests.every((name) => name === '.' || name in files)).toBe(true);
        } catch (error) {
          expect(error).toBeInstanceOf(RuntimeRefused);
        }
      }),
      { numRuns: 2_000 },
    );
  });
});

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
