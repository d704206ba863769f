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
    ['a Procfile with a default that needs a shell', { Procfile: 'web: node a.js ${A:-$(id)}' }, 'needs a shell'],
    ['a Procfile with a variable that must be set', { Procfile: 'web: node a.js ${A:?}' }, 'needs a shell'],
    ['a Pipfile that is broken', { Pipfile: '[', 'main.py': '' }, 'Pipfile is not valid TOML'],
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
    [
      'pyproject.toml of Poetry',
      { 'pyproject.toml': '[tool.poetry.dependencies]\nx = "1"\n' },
      ['pyproject.toml'],
      '-r .mooring-requirements.txt',
    ],
    [
      'pyproject.toml of Poetry with packages of its own',
      { 'pyproject.toml': '[tool.poetry.dependencies]\nx = { path = "x" }\n' },
      ['.'],
      '--no-deps -r .mooring-local.txt',
    ],
    ['pyproject.toml whose list is elsewhere', { 'pyproject.toml': '[build-system]\n[project]\ndynamic = ["dependencies"]\n' }, ['.'], '.'],
    [
      'pyproject.toml whose list is a file',
      { 'pyproject.toml': '[project]\ndynamic = ["dependencies"]\n[tool.setuptools.dynamic]\ndependencies = { file = ["r/base.txt"] }\n' },
      ['.'],
      '-r r/base.txt',
    ],
    [
      'a workspace of uv without a lock file',
      { 'pyproject.toml': '[project]\ndependencies = ["a"]\n[tool.uv.workspace]\nmembers = ["a"]\n' },
      ['.'],
      '--no-deps -r .mooring-local.txt',
    ],
    ['setup.py', { 'setup.py': '' }, ['.'], '.'],
    ['setup.py beside a pyproject.toml of tools', { 'setup.py': '', 'pyproject.toml': '[tool.black]\n' }, ['.'], '.'],
    ['Pipfile', { Pipfile: '[packages]\na = "*"\nb = "==1"\n' }, ['Pipfile'], 'a b==1'],
    ['Pipfile.lock', { Pipfile: '[packages]\na = "*"\n', 'Pipfile.lock': '' }, ['Pipfile', 'Pipfile.lock'], '-r .mooring-requirements.txt'],
    [
      'requirements.txt, though pyproject.toml has a list',
      { 'requirements.txt': 'a', 'pyproject.toml': '[project]\ndependencies = ["b"]\n' },
      ['requirements.txt'],
      '-r requirements.txt',
    ],
    ['uv.lock', { 'pyproject.toml': '[project]\n', 'uv.lock': '' }, ['pyproject.toml', 'uv.lock'], '-r .mooring-requirements.txt'],
    [
      'uv.lock with packages of its own',
      { 'pyproject.toml': '[tool.uv.sources]\na = { path = "a" }\n', 'uv.lock': '' },
      ['.'],
      '--no-deps -r .mooring-local.txt',
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

  it('in Python without a list of packages has none installed', () => {
    expect(plan({ 'main.py': '', 'pyproject.toml': '[tool.black]\n' })).toMatchObject({
      found: 'a Python project (no list of packages)',
      install: [['python3', '-m', 'venv', '.venv']],
      build: [],
    });
  });

  it('in Python is installed as a package too, which may fail unless a framework needs it', () => {
    const pyproject = '[build-system]\n[project]\ndependencies = ["a"]\n';
    const own = ['pip', 'install', '--no-cache-dir', '--disable-pip-version-check', '--no-deps', '.'];
    const { build } = plan({ 'main.py': '', 'requirements.txt': '', 'pyproject.toml': pyproject });
    expect(build).toEqual([['python3', '-c', expect.stringContaining('That is no failure'), ...own]]);
    expect(plan({ 'pyproject.toml': `${pyproject}[tool.crewai]\n` }).build).toEqual([own]);
    expect(plan({ 'main.py': '', 'pyproject.toml': `${pyproject}[tool.uv]\npackage = false\n` }).build).toEqual([]);
  });

  it.each<[string, string]>([
    ['"~=1.0"', 'a~=1.0'],
    ['"1.0"', 'a==1.0'],
    ['{ version = ">=1", extras = ["x", "y"], markers = "python_version > \'3\'" }', "a[x,y]>=1 ; python_version > '3'"],
    ['{ version = "*", sys_platform = "== \'win32\'" }', "a ; sys_platform == 'win32'"],
    ['{ git = "https://git.example.com/a.git", ref = "v1" }', 'a @ git+https://git.example.com/a.git@v1'],
    ['{ file = "https://example.com/a.whl" }', 'a @ https://example.com/a.whl'],
    ['{ path = "libs/a", editable = true }', './libs/a'],
  ])('in Python with the package %s in its Pipfile has %s installed', (asked, requirement) => {
    const { install } = plan({ 'main.py': '', Pipfile: `[packages]\na = ${asked}\n` });
    expect(install.at(-1)?.slice(4)).toEqual([requirement]);
  });

  it('in Python takes packages from the indexes that its Pipfile names beside the usual one', () => {
    const source = (url: string) => `[[source]]\nurl = "${url}"\n`;
    const Pipfile = `${source('https://pypi.org/simple')}${source('https://pip.example.com/simple')}[packages]\na = "*"\n`;
    expect(plan({ 'main.py': '', Pipfile }).install.at(-1)?.slice(4)).toEqual(['--extra-index-url=https://pip.example.com/simple', 'a']);
  });

  const fastapi = 'from fastapi import FastAPI\n\napp: FastAPI = FastAPI(title="x")\n';
  it.each<[string, Record<string, string>, string]>([
    [
      'uvicorn',
      { 'main.py': fastapi, 'requirements.txt': 'fastapi\nUvicorn[standard]==0.34\n' },
      'uvicorn main:app --host 0.0.0.0 --port 8080',
    ],
    [
      'uvicorn of fastapi',
      { 'main.py': fastapi, 'requirements.txt': 'fastapi[standard]\n' },
      'uvicorn main:app --host 0.0.0.0 --port 8080',
    ],
    [
      'uvicorn by Poetry',
      { 'main.py': fastapi, 'pyproject.toml': '[tool.poetry.dependencies]\nuvicorn = "*"\n' },
      'uvicorn main:app --host 0.0.0.0 --port 8080',
    ],
    [
      'hypercorn',
      { 'app.py': 'api = starlette.Starlette()\n', Pipfile: '[packages]\nhypercorn = "*"\n' },
      'hypercorn app:api --bind 0.0.0.0:8080',
    ],
    ['gunicorn', { 'app.py': 'app = Flask(__name__)\n', 'requirements.txt': 'flask\ngunicorn' }, 'gunicorn app:app --bind 0.0.0.0:8080'],
    [
      'waitress',
      { 'app.py': 'app = Flask(__name__)\n', 'pyproject.toml': '[project]\ndependencies = ["waitress>=3"]\n' },
      'waitress-serve --listen=0.0.0.0:8080 app:app',
    ],
    [
      'itself',
      { 'main.py': `${fastapi}if __name__ == "__main__":\n    uvicorn.run(app)\n`, 'requirements.txt': 'uvicorn' },
      'python main.py',
    ],
    ['itself at the top level', { 'app.py': 'app = Flask(__name__)\napp.run(port=80)\n', 'requirements.txt': 'gunicorn' }, 'python app.py'],
    [
      'no server, since it has no app',
      { 'main.py': 'def make():\n    app = FastAPI()\n', 'requirements.txt': 'uvicorn' },
      'python main.py',
    ],
  ])('in Python with an app is started by %s', (_, files, start) => {
    expect(plan(files).start).toEqual(start.split(' '));
  });

  it.each<[string, string, string[]]>([
    [fastapi, 'fastapi', ['"uvicorn"', '"web: uvicorn main:app --host 0.0.0.0 --port $PORT"']],
    ['app = Flask(__name__)\n', 'flask', ['"gunicorn"', '"web: gunicorn main:app --bind 0.0.0.0:$PORT"']],
  ])('in Python with an app that nothing starts names the line to add: %j', (program, packages, lines) => {
    for (const line of lines) expect(() => plan({ 'main.py': program, 'requirements.txt': packages })).toThrow(line);
  });

  it.each<[string, string, string[]]>([
    ['uvicorn main:app --port ${PORT:-8000}', 'uvicorn main:app --port 8080', []],
    ['uvicorn main:app --port "${PORT-8000}"', 'uvicorn main:app --port 8080', []],
    ['gunicorn app:app -w ${WEB_CONCURRENCY:-2}', 'gunicorn app:app -w 2', ['WEB_CONCURRENCY']],
    ['cd /app && uvicorn main:app --port $PORT', 'uvicorn main:app --port 8080', []],
  ])('with a Procfile is started by %j', (line, start, assumed) => {
    const found = plan({ Procfile: `web: ${line}\n`, 'requirements.txt': '' });
    expect(found.start).toEqual(start.split(' '));
    expect(found.notes).toEqual(assumed.map((name) => expect.stringContaining(`${name} had the default`)));
  });

  it('with a Procfile says which of its processes are not started', () => {
    const found = plan({ Procfile: 'release: python migrate.py\nweb: python a.py\nworker: celery\n', 'requirements.txt': '' });
    expect(found.notes).toEqual(['Of the Procfile only web is started, and not release, worker: an agent is one program']);
  });

  it('listens where it is reached if its server is not told otherwise', () => {
    const files = { Procfile: 'web: uvicorn main:app --port $PORT', 'requirements.txt': '' };
    expect(plan(files).env).toMatchObject({ UVICORN_HOST: '0.0.0.0' });
    expect(plan({ 'main.py': '' }).env).not.toHaveProperty('UVICORN_HOST');
  });

  it('of LangGraph in Python has the packages of the folders that it depends on', () => {
    const { install } = plan({ 'langgraph.json': json({ graphs: { a: './my_agent/agent.py:x' }, dependencies: ['./my_agent', 'ms'] }) });
    expect(install.map((command) => command.filter((word) => !word.startsWith('-') && !word.includes('\n')).join(' '))).toEqual([
      'python3 venv .venv',
      'pip install ms',
      'python3 ./my_agent pip install',
    ]);
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
