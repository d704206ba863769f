/** The directory for files that do not name one. */
export const DEFAULT_TARGET_DIR = '/service/scripts';

/** The longest path and directory in characters, and the longest name in them in bytes. */
const LOCATION_CHARACTERS_MAX = 255;
/** The directories of the kernel and of the service. A file there would be hidden, or do harm. */
const RESERVED = ['/proc', '/sys', '/dev', '/.mooring'];
/** Control characters, halves of characters, and characters that let one name look like another. */
const invisible = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u;

/** The location of a custom file: a path within a directory of the container. */
export interface FileLocation {
  path: string;
  targetDir: string;
}

/** Returns what is wrong with the path of a custom file, or null. */
export function pathProblem(path: string): string | null {
  if (path.startsWith('/')) return 'must be relative; target_dir names the directory';
  return namesProblem(path);
}

/** Returns what is wrong with the directory of a custom file, or null. */
export function targetDirProblem(directory: string): string | null {
  if (!directory.startsWith('/')) return 'must be an absolute directory';
  if (directory === '/') return null;
  const reserved = RESERVED.find((each) => directory === each || directory.startsWith(`${each}/`));
  return namesProblem(directory.slice(1)) ?? (reserved === undefined ? null : `must not be in ${reserved}`);
}

/** Returns what is wrong with the combination of both, or null: a path from the root must not lead to a directory that is not allowed. */
export function locationProblem(place: FileLocation): string | null {
  return targetDirProblem(absolutePathOf(place)) === null ? null : 'must not lead to a directory of the system';
}

function namesProblem(names: string): string | null {
  if (names === '' || names.length > LOCATION_CHARACTERS_MAX) return `must have 1 to ${LOCATION_CHARACTERS_MAX} characters`;
  if (invisible.test(names)) return 'must not contain control characters or other characters that are not visible';
  // These characters are refused because some programs treat them as dots or slashes.
  if (/[\uFF0E\uFF0F\uFF3C\u2024\u2025\u2026\u2044\u2215\u29F8]/u.test(names))
    return 'must not contain characters that look like dots or slashes';
  if (names.includes('\\')) return 'must not contain backslashes';
  const each = names.split('/');
  if (each.some((name) => name === '')) return 'must not contain empty names, nor end with a slash';
  if (each.some((name) => name === '.' || name === '..' || /^(\.|%2e){1,2}$/i.test(name))) return 'must not contain the names . and ..';
  if (/%(2e|2f|5c|00)/i.test(names)) return 'must not contain percent-encoded dots, slashes or NULs; names are taken as they are';
  return each.some((name) => Buffer.byteLength(name) > LOCATION_CHARACTERS_MAX)
    ? `must have names of at most ${LOCATION_CHARACTERS_MAX} bytes`
    : null;
}

/** Returns the absolute path of the file in the container. */
export function absolutePathOf({ path, targetDir }: FileLocation): string {
  return targetDir === '/' ? `/${path}` : `${targetDir}/${path}`;
}

/** Returns whether the path is the directory or in it. */
export function isWithin(path: string, directory: string): boolean {
  return path === directory || path.startsWith(directory === '/' ? '/' : `${directory}/`);
}
