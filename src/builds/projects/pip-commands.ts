import { RuntimeRefused } from '../../runtime/runtime.errors.ts';

/** A folder for the tools that read lists of packages, which is removed after the installation. */
const TOOLS = '.mooring-tools';
const LOCKED = '.mooring-requirements.txt';
const LOCAL = '.mooring-local.txt';
const pip = ['pip', 'install', '--no-cache-dir', '--disable-pip-version-check'];

export const virtualEnvironment = ['python3', '-m', 'venv', '.venv'];

/** Runs what follows, and does not fail if it does. */
const unlessFailed = `import subprocess, sys
if subprocess.run(sys.argv[1:]).returncode:
    print('The project itself could not be installed as a package, so it runs from its folder. That is no failure.')
`;
/** Installs a folder as LangGraph's own tool does: a package, or else its list of packages, or nothing. */
const folderProgram = `import os, subprocess, sys
folder, command = sys.argv[1], sys.argv[2:]
def has(name):
    return os.path.exists(os.path.join(folder, name))
if has('pyproject.toml') or has('setup.py'):
    sys.exit(subprocess.run([*command, folder]).returncode)
if has('requirements.txt'):
    sys.exit(subprocess.run([*command, '-r', os.path.join(folder, 'requirements.txt')]).returncode)
print(folder + ' names no packages')
`;
/** Writes what a program prints to the list of packages. */
const keepProgram = `import subprocess, sys
with open('${LOCKED}', 'w') as kept:
    sys.exit(subprocess.run(sys.argv[1:], stdout=kept).returncode)
`;
/** Writes the packages of Poetry's main group to the list, as pip reads them. */
const poetryProgram = `from pathlib import Path
from poetry.core.factory import Factory
package = Factory().create_poetry(Path('.')).package
Path('${LOCKED}').write_text(''.join(each.to_pep_508() + '\\n' for each in package.requires if not each.is_optional()))
`;
/** Moves packages of the project's own folders, which have no hashes, to a list of their own, and leaves the usual index to the settings. */
const splitProgram = `import re
from pathlib import Path
kept = Path('${LOCKED}')
lines = re.sub(r'\\\\\\r?\\n', ' ', kept.read_text()).splitlines()
def is_local(line):
    return re.match(r'(-e\\s|\\.{0,2}/|[\\w.\\[\\],-]+\\s*@\\s*file:)', line) is not None
Path('${LOCAL}').write_text(''.join(line.split(' --hash')[0] + '\\n' for line in lines if is_local(line)))
usual = re.compile(r'(-i|--index-url)[\\s=]+https://pypi\\.(python\\.)?org/simple/?\\s*$')
kept.write_text(''.join(line + '\\n' for line in lines if not is_local(line) and not usual.match(line)))
`;
const removeProgram = `import os, shutil
shutil.rmtree('${TOOLS}')
for name in ['${LOCKED}', '${LOCAL}']:
    if os.path.exists(name):
        os.remove(name)
`;
const python = (program: string, ...words: string[]) => ['python3', '-c', program, ...words];
const tool = (name: string) => `${TOOLS}/bin/${name}`;

/** Returns the command that installs these packages. Throws `RuntimeRefused` if one of them is no requirement but an option. */
export function pipPackages(requirements: string[]): string[] {
  const bad = requirements.find((requirement) => !/^[A-Za-z0-9]/.test(requirement));
  if (bad !== undefined) throw new RuntimeRefused(`The Python project names a package that is none: ${JSON.stringify(bad.slice(0, 100))}.`);
  return [...pip, ...requirements];
}

/** Returns the command that installs what the words name, in pip's own form. */
export function pipWords(...words: string[]): string[] {
  return [...pip, ...words];
}

export function pipFile(name: string): string[] {
  return pipWords('-r', name);
}

/** Returns the command that installs the project itself without its packages. */
export function pipProject(isNeeded: boolean): string[] {
  const command = pipWords('--no-deps', '.');
  return isNeeded ? command : python(unlessFailed, ...command);
}

export function pipFolder(name: string): string[] {
  return python(folderProgram, name, ...pip);
}

export type ListReader = 'uv' | 'uv without a lock' | 'poetry' | 'poetry without a lock' | 'pipenv' | 'pipenv without hashes';

/** Returns the commands that export the locked packages to a requirements file and install them with pip. */
export function listedInstall(reader: ListReader, hasLocalPackages: boolean): string[][] {
  const { packages, commands } = readers[reader];
  return [
    ['python3', '-m', 'venv', TOOLS],
    [tool('pip'), ...pip.slice(1), ...packages],
    ...commands,
    python(splitProgram),
    pipFile(LOCKED),
    ...(hasLocalPackages ? [pipWords('--no-deps', '-r', LOCAL)] : []),
    python(removeProgram),
  ];
}

const uvExport = (...more: string[]) => [
  [tool('uv'), 'export', ...more, '--no-dev', '--no-emit-project', '--no-editable', '--no-header', '--quiet', '-o', LOCKED],
];
const readers: Record<ListReader, { packages: string[]; commands: string[][] }> = {
  uv: { packages: ['uv<1'], commands: uvExport('--frozen') },
  'uv without a lock': { packages: ['uv<1'], commands: uvExport() },
  poetry: {
    packages: ['poetry>=2,<3', 'poetry-plugin-export>=1.9,<2'],
    commands: [[tool('poetry'), 'export', '--only', 'main', '-f', 'requirements.txt', '-o', LOCKED]],
  },
  'poetry without a lock': { packages: ['poetry-core>=2,<3'], commands: [[tool('python'), '-c', poetryProgram]] },
  pipenv: { packages: ['pipenv>=2024'], commands: [python(keepProgram, tool('pipenv'), 'requirements', '--hash')] },
  'pipenv without hashes': { packages: ['pipenv>=2024'], commands: [python(keepProgram, tool('pipenv'), 'requirements')] },
};
