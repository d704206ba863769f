import type { ProjectFiles } from './project-files.ts';
import { hasKey, tableIn, textsIn, tomlOf, type Table } from './toml.ts';

const PYPI = /^https:\/\/pypi\.(org|python\.org)(\/|$)/;
/** Keys of a package beside which pip can't check a hash. */
const withoutHash: ReadonlySet<string> = new Set(['git', 'hg', 'svn', 'path', 'file', 'editable']);
/** Keys of a package that are markers of the same name. */
const markers = ['os_name', 'sys_platform', 'platform_machine', 'platform_system', 'python_version', 'python_full_version'];

export interface Pipfile {
  names: string[];
  /** The arguments of pip: requirements, and the indexes beside the usual one. */
  arguments: string[];
  canHaveHashes: boolean;
  /** Tells that packages are taken from the project's own folders. */
  hasLocalPackages: boolean;
}

/** Reads Pipfile. Returns null if there is none. Throws `RuntimeRefused` if it is not TOML. */
export function pipfileOf({ texts }: ProjectFiles): Pipfile | null {
  const text = texts.get('Pipfile');
  if (text === undefined) return null;
  const value = tomlOf(text, 'Pipfile');
  const packages = tableIn(value, 'packages');
  const sources = Array.isArray(value['source']) ? (value['source'] as Table[]) : [];
  const indexes = sources.flatMap((source) => textsIn(source['url'])).filter((url) => !PYPI.test(url));
  return {
    names: Object.keys(packages),
    arguments: [
      ...indexes.map((url) => `--extra-index-url=${url}`),
      ...Object.entries(packages).map(([name, asked]) => requirementOf(name, asked)),
    ],
    canHaveHashes: !hasKey([packages], withoutHash),
    hasLocalPackages: hasKey([packages], new Set(['path', 'file'])),
  };
}

function requirementOf(name: string, asked: unknown): string {
  if (typeof asked === 'string') return name + specifier(asked);
  const wanted = typeof asked === 'object' && asked !== null ? (asked as Table) : {};
  const said = (key: string): string | null => (typeof wanted[key] === 'string' ? wanted[key] : null);
  const extras = textsIn(wanted['extras']);
  const full = extras.length === 0 ? name : `${name}[${extras.join(',')}]`;
  const path = said('path');
  if (path !== null) return path.startsWith('.') ? path : `./${path}`;
  const from = said('git') === null ? said('file') : `git+${said('git') ?? ''}${said('ref') === null ? '' : `@${said('ref') ?? ''}`}`;
  const conditions = [said('markers'), ...markers.filter((key) => said(key) !== null).map((key) => `${key} ${said(key) ?? ''}`)];
  const marker = conditions.filter((each) => each !== null).join(' and ');
  return (from === null ? full + specifier(said('version') ?? '*') : `${full} @ ${from}`) + (marker === '' ? '' : ` ; ${marker}`);
}

/** Returns the version as pip reads it. */
function specifier(version: string): string {
  if (version === '*' || version === '') return '';
  return /^\d/.test(version) ? `==${version}` : version;
}
