import type { ProjectFiles } from './project-files.ts';
import { hasKey, tableIn, textsIn, tomlOf, type Table } from './toml.ts';

/** Keys of pyproject.toml beside which packages are taken from the project's own folders. */
const localKeys: ReadonlySet<string> = new Set(['path', 'workspace', 'editable']);

export interface Pyproject {
  /** The requirements of `[project] dependencies`. The value is null if the file does not list them there. */
  dependencies: string[] | null;
  /** The files of requirements that setuptools reads for the project. */
  dynamicFiles: string[];
  /** Tells that `[tool.poetry]` lists dependencies, by name. */
  poetryNames: string[] | null;
  /** Tells that there is a package, or that something builds one. */
  isPackage: boolean;
  /** Tells that uv, or Poetry, takes packages from the project's own folders. */
  hasLocalPackages: { uv: boolean; poetry: boolean };
  isCrew: boolean;
}

/** Reads pyproject.toml. Returns null if there is none. Throws `RuntimeRefused` if it is not TOML. */
export function pyprojectOf({ texts }: ProjectFiles): Pyproject | null {
  const text = texts.get('pyproject.toml');
  if (text === undefined) return null;
  const value = tomlOf(text, 'pyproject.toml');
  const tool = tableIn(value, 'tool');
  const [poetry, uv, project] = [tableIn(tool, 'poetry'), tableIn(tool, 'uv'), tableIn(value, 'project')];
  return {
    dependencies: listed(value, project),
    dynamicFiles: textsIn(tableIn(tableIn(tableIn(tool, 'setuptools'), 'dynamic'), 'dependencies')['file']),
    poetryNames: Object.hasOwn(tool, 'poetry') ? Object.keys(tableIn(poetry, 'dependencies')) : null,
    isPackage: value['build-system'] !== undefined && poetry['package-mode'] !== false && uv['package'] !== false,
    hasLocalPackages: {
      uv: uv['workspace'] !== undefined || hasKey([uv['sources']], localKeys),
      poetry: hasKey([poetry], localKeys),
    },
    isCrew: Object.hasOwn(tool, 'crewai'),
  };
}

function listed(value: Table, project: Table): string[] | null {
  if (value['project'] === undefined || textsIn(project['dynamic']).includes('dependencies')) return null;
  const { dependencies = [] } = project;
  return Array.isArray(dependencies) ? textsIn(dependencies) : null;
}
