import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import fc from 'fast-check';

import { json, planOfFiles as plan } from '../../../test/support/planned-projects.ts';
import { RuntimeRefused } from '../../runtime/runtime.errors.ts';
import { planProject } from './plan-project.ts';

const node = json({ main: 'agent.js', dependencies: { ms: '^2' } });
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

  it.each(['./graph.py:graph', 'agent.graph:graph', 'agent:make'])('of LangGraph whose graph is %s is in Python', (path) => {
    expect(plan({ 'langgraph.json': json({ graphs: { a: path } }) })).toMatchObject({ language: 'python' });
  });

  it.each(['./graph.ts:graph', 'graph.mjs:graph'])('of LangGraph whose graph is %s is in JavaScript', (path) => {
    expect(plan({ 'langgraph.json': json({ graphs: { a: path } }), 'package.json': '{}' })).toMatchObject({ language: 'node' });
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

  it('of OpenClaw is installed and built with the Node of its template, which also provides OpenClaw if the project does not', () => {
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

  describe('whose start command was said', () => {
    const start = (...words: string[]) => words;

    it('need not say one itself', () => {
      const lib = { 'requirements.txt': 'flask\n', 'lib.py': '' };
      expect(() => plan(lib)).toThrow('does not say how it is started');
      expect(plan(lib, '8080', start('python', '-m', 'lib'))).toMatchObject({ language: 'python', start: ['python', '-m', 'lib'] });
      expect(plan({ 'package.json': '{}' }, '8080', start('node', 'x.js'))).toMatchObject({ language: 'node', start: ['node', 'x.js'] });
    });

    it('is started by it in the place of its Procfile, or its framework’s program', () => {
      const web = { Procfile: 'web: node $A', 'package.json': node };
      expect(() => plan(web)).toThrow('needs a shell');
      expect(plan(web, '8080', start('node', 'x.js')).start).toEqual(['node', 'x.js']);
      const framework = plan({ 'pyproject.toml': crew }, '8080', start('python', 'x.py'));
      expect(framework).toMatchObject({ framework: 'crewai', start: ['python', 'x.py'] });
    });

    it('is of the language of that command, if it could be of two', () => {
      const both = { 'package.json': '{}', 'requirements.txt': '' };
      expect(plan(both, '8080', start('node', 'x.js')).language).toBe('node');
      expect(plan(both, '8080', start('python3', 'x.py')).language).toBe('python');
      expect(() => plan(both, '8080', start('./run'))).toThrow('It is not clear in which language the start command is written ("./run")');
    });

    it('keeps the packages of the development that it calls', () => {
      const files = { 'package.json': json({ devDependencies: { tsx: '4' } }) };
      expect(plan(files, '8080', start('tsx', 'x.ts')).notes).toEqual([expect.stringContaining('tsx')]);
    });
  });

  describe('in a folder', () => {
    let folder: string;
    beforeEach(async () => {
      folder = await mkdtemp(join(tmpdir(), 'mooring-plan-'));
    });
    afterEach(() => rm(folder, { recursive: true }));

    it('is recognized by its files, and links are not followed', async () => {
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

  it('gets a plan in exec form or is refused, for any files', () => {
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
