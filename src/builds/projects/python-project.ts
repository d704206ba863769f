import type { Steps } from './node-project.ts';
import { type ListReader, listedInstall, pipFile, pipPackages, pipProject, pipWords, virtualEnvironment } from './pip-commands.ts';
import { pipfileOf, type Pipfile } from './pipfile.ts';
import type { ProjectFiles } from './project-files.ts';
import type { Pyproject } from './pyproject.ts';

/** A line of requirements.txt, without the spaces before it, that reads other files of the project. */
const otherFileLine = /^(-[rcef]\b|--(requirement|constraint|editable|find-links)\b|\.|\/)|\bfile:/;
/** A file of requirements within the project. */
const innerFile = /^(?!-|\/)(?!(?:.*\/)?\.\.(?:\/|$))/;

/** The installation of a project's packages. */
interface Packages {
  /** The file that lists them. */
  from: string;
  manifests: string[];
  install: string[][];
  /** Tells that the project itself is installed with its packages. */
  withProject?: boolean;
}

/**
 * Returns how the packages of a Python project are installed: by uv.lock, poetry.lock, Pipfile.lock, requirements.txt, Pipfile, pyproject.toml or
 * setup.py, in this order. Locked packages are installed by pip, so that a mirror that is set for pip serves all of them. The project itself is
 * installed after them where it is a package; that may fail, unless it is needed as one.
 */
export function pythonSteps(files: ProjectFiles, pyproject: Pyproject | null, isNeeded = false): Steps {
  const { from, manifests, install, withProject = false } = packagesOf(files, pyproject, pipfileOf(files));
  return {
    found: `a Python project (${from})`,
    manifests,
    install: [virtualEnvironment, ...install],
    build: pyproject?.isPackage === true && !withProject ? [pipProject(isNeeded)] : [],
  };
}

function packagesOf(files: ProjectFiles, pyproject: Pyproject | null, pipfile: Pipfile | null): Packages {
  const { names, texts } = files;
  if (pyproject !== null && names.has('uv.lock')) return byTool('uv', 'uv.lock', pyproject.hasLocalPackages.uv);
  if (pyproject !== null && names.has('poetry.lock')) return byTool('poetry', 'poetry.lock', pyproject.hasLocalPackages.poetry);
  if (pipfile !== null && names.has('Pipfile.lock')) {
    const reader = pipfile.canHaveHashes ? 'pipenv' : 'pipenv without hashes';
    return byTool(reader, 'Pipfile.lock', pipfile.hasLocalPackages, 'Pipfile');
  }
  if (names.has('requirements.txt')) {
    const readsMore = readsOtherFiles(texts.get('requirements.txt') ?? '');
    return { from: 'requirements.txt', manifests: [readsMore ? '.' : 'requirements.txt'], install: [pipFile('requirements.txt')] };
  }
  if (pipfile !== null) {
    const install = pipfile.names.length === 0 ? [] : [pipWords(...pipfile.arguments)];
    return { from: 'Pipfile', manifests: [pipfile.hasLocalPackages ? '.' : 'Pipfile'], install };
  }
  return ofPyproject(files, pyproject);
}

function ofPyproject({ names }: ProjectFiles, pyproject: Pyproject | null): Packages {
  const from = 'pyproject.toml';
  const isBuilt = names.has('setup.py') || pyproject?.isPackage === true;
  if (pyproject?.hasLocalPackages.uv === true) return byTool('uv without a lock', from, true);
  if (pyproject?.poetryNames != null && (pyproject.dependencies === null || pyproject.hasLocalPackages.poetry))
    return byTool('poetry without a lock', from, pyproject.hasLocalPackages.poetry);
  if (pyproject?.dependencies != null) {
    const install = pyproject.dependencies.length === 0 ? [] : [pipPackages(pyproject.dependencies)];
    return { from, manifests: ['pyproject.toml'], install };
  }
  const dynamic = pyproject?.dynamicFiles.filter((name) => innerFile.test(name)) ?? [];
  if (dynamic.length > 0) return { from: dynamic.join(', '), manifests: ['.'], install: dynamic.map(pipFile) };
  if (isBuilt) return { from: pyproject === null ? 'setup.py' : from, manifests: ['.'], install: [pipWords('.')], withProject: true };
  return { from: 'no list of packages', manifests: [], install: [] };
}

function byTool(reader: ListReader, from: string, hasLocalPackages: boolean, manifest = 'pyproject.toml'): Packages {
  const manifests = hasLocalPackages ? ['.'] : [...new Set([manifest, from])];
  return { from, manifests, install: listedInstall(reader, hasLocalPackages) };
}

function readsOtherFiles(requirements: string): boolean {
  return requirements.split(/[\r\n]/).some((line) => otherFileLine.test(line.trimStart()));
}
