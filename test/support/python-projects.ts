/** Projects for Python beside those of test/support/repositories. Each program prints what it found, and ends. */

type Project = Record<string, string>;

const program = 'import six\nprint("runs", six.__version__)\n';
const withToolbox = 'import six, toolbox\nprint("runs", six.__version__, toolbox.NAME)\n';
const sixHashes = [
  'sha256:4721f391ed90541fddacab5acf947aa0d3dc7d27b2e1e8eda2be8970586c3274',
  'sha256:ff70335d468e7eb6ec65b95b99d3a2836546063f63acc5171de367e834932a81',
];
const setuptools = '[build-system]\nrequires = ["setuptools>=68"]\nbuild-backend = "setuptools.build_meta"\n';
const toolbox = {
  'packages/toolbox/pyproject.toml': `${setuptools}
[project]
name = "toolbox"
version = "0.1.0"
requires-python = ">=3.10"
`,
  'packages/toolbox/toolbox/__init__.py': 'NAME = "toolbox"\n',
};
const workspace = `[project]
name = "agent"
version = "0.1.0"
requires-python = ">=3.10"
dependencies = ["six==1.17.0", "toolbox"]

[tool.uv.workspace]
members = ["packages/*"]

[tool.uv.sources]
toolbox = { workspace = true }
`;
const workspaceLock = `version = 1
revision = 3
requires-python = ">=3.10"

[manifest]
members = ["agent", "toolbox"]

[[package]]
name = "agent"
version = "0.1.0"
source = { virtual = "." }
dependencies = [{ name = "six" }, { name = "toolbox" }]

[package.metadata]
requires-dist = [{ name = "six", specifier = "==1.17.0" }, { name = "toolbox", editable = "packages/toolbox" }]

[[package]]
name = "six"
version = "1.17.0"
source = { registry = "https://pypi.org/simple" }
sdist = { url = "https://files.pythonhosted.org/packages/94/e7/b2c673351809dca68a0e064b6af791aa332cf192da575fd474ed7d6f16a2/six-1.17.0.tar.gz", hash = "${sixHashes[1]}", size = 34031 }
wheels = [
    { url = "https://files.pythonhosted.org/packages/b7/ce/149a00dd41f10bc29e5921b496af8b574d8413afcd5e30dfa0ed46c2cc5e/six-1.17.0-py2.py3-none-any.whl", hash = "${sixHashes[0]}", size = 11050 },
]

[[package]]
name = "toolbox"
version = "0.1.0"
source = { editable = "packages/toolbox" }
`;
const poetry = `[tool.poetry]
name = "agent"
version = "0.1.0"
description = ""
authors = ["A Tester <tester@example.com>"]
package-mode = false

[tool.poetry.dependencies]
python = "^3.10"
six = "^1.17"
toolbox = { path = "packages/toolbox" }

[build-system]
requires = ["poetry-core"]
build-backend = "poetry.core.masonry.api"
`;

export const pythonProjects: Record<string, Project> = {
  'Pipfile.lock': {
    Pipfile: '[packages]\nsix = "*"\n',
    'Pipfile.lock': JSON.stringify({
      _meta: {
        hash: { sha256: 'x' },
        'pipfile-spec': 6,
        requires: {},
        sources: [{ name: 'pypi', url: 'https://pypi.org/simple', verify_ssl: true }],
      },
      default: { six: { hashes: sixHashes, index: 'pypi', version: '==1.17.0' } },
      develop: {},
    }),
    'app.py': program,
  },
  'requirements.txt, though its pyproject.toml makes no package': {
    'requirements.txt': 'six==1.17.0\n',
    'pyproject.toml': `${setuptools}\n[project]\nname = "agent"\nversion = "0.1.0"\n`,
    'app/__init__.py': '',
    'data/__init__.py': '',
    'main.py': program,
  },
  'Poetry and a package of its own': {
    ...toolbox,
    'pyproject.toml': poetry,
    'main.py': withToolbox,
  },
  'a workspace of uv': { ...toolbox, 'pyproject.toml': workspace, 'uv.lock': workspaceLock, 'main.py': withToolbox },
};
