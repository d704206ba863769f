import { RuntimeRefused } from '../../runtime/runtime.errors.ts';
import type { ProjectFiles } from './project-files.ts';

export interface PackageJson {
  main: string | null;
  scripts: Record<string, string>;
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
  optionalDependencies: Record<string, string>;
  /** The manager that the project asks for, as `name@version`; empty if it names none. */
  packageManager: string;
  module: string | null;
  /** The versions of programs that the project asks for. */
  engines: Record<string, string>;
  hasWorkspaces: boolean;
}

/** Reads package.json. Returns null if there is none. Throws `RuntimeRefused` if it is not a JSON object. */
export function packageJsonOf({ texts }: ProjectFiles): PackageJson | null {
  const text = texts.get('package.json');
  if (text === undefined) return null;
  const value = jsonObject(text, 'package.json');
  return {
    main: nameOf(value['main']),
    module: nameOf(value['module']),
    scripts: textsOf(value['scripts']),
    dependencies: textsOf(value['dependencies']),
    devDependencies: textsOf(value['devDependencies']),
    optionalDependencies: textsOf(value['optionalDependencies']),
    packageManager: nameOf(value['packageManager']) ?? managerOfEngines(value['devEngines']),
    engines: textsOf(value['engines']),
    hasWorkspaces: value['workspaces'] !== undefined,
  };
}

function nameOf(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}

/** Returns what `devEngines` says of the package manager, in the form of `packageManager`. */
function managerOfEngines(engines: unknown): string {
  const asked = typeof engines === 'object' && engines !== null && 'packageManager' in engines ? engines.packageManager : null;
  const { name, version } = textsOf(asked);
  return name === undefined ? '' : `${name}@${version ?? ''}`;
}

/** Returns the JSON object in a file's text. Throws `RuntimeRefused` for anything else. */
export function jsonObject(text: string, name: string): Record<string, unknown> {
  const value = parsed(text);
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new RuntimeRefused(`The file ${name} is not a JSON object.`);
  return value as Record<string, unknown>;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function textsOf(value: unknown): Record<string, string> {
  if (typeof value !== 'object' || value === null) return {};
  return Object.fromEntries(Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === 'string'));
}
