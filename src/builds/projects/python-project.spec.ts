import { planOfFiles as plan } from '../../../test/support/planned-projects.ts';

describe('a project without a Dockerfile', () => {
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
});
