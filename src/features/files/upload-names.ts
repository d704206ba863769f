import { UNFINISHED_PREFIX } from '../../runtime/file-paths.ts';

/** The number of numbered names that are tried in the inbox before a name with an id. */
const NUMBERED_NAMES_MAX = 8;
const NAME_BYTES_MAX = 255;

/** Returns the name, then the name with numbers before its extension, and finally the name with a unique id. */
export function candidateNames(name: string, id: string): string[] {
  const [, stem = name, ending = ''] = /^(.+?)(\.[A-Za-z0-9]{1,10}(?:\.[A-Za-z0-9]{1,10})?)?$/su.exec(name) ?? [];
  const suffixes = [...Array.from({ length: NUMBERED_NAMES_MAX }, (_, index) => `-${index + 2}`), `-${id}`];
  return [name, ...suffixes.map((suffix) => `${truncateUtf8(stem, NAME_BYTES_MAX - suffix.length - ending.length)}${suffix}${ending}`)];
}

/** Returns the longest prefix of the text with at most that many bytes of UTF-8. */
function truncateUtf8(text: string, bytesMax: number): string {
  let end = text.length;
  while (Buffer.byteLength(text.slice(0, end)) > bytesMax) end -= 1;
  return text.slice(0, end).replace(/[\ud800-\udbff]$/, '');
}

export const RESERVED_NAME = `must not have a name that begins with ${UNFINISHED_PREFIX}`;

/** Returns whether the name is reserved for unfinished files, which are not listed and are removed as leftovers. */
export function isReserved(name: string): boolean {
  return name.startsWith(UNFINISHED_PREFIX);
}

/** Returns what is wrong with the name of a file, or null. */
export function nameProblem(name: string): string | null {
  if (name === '' || name === '.' || name === '..') return 'must have a file name';
  if (isReserved(name)) return RESERVED_NAME;
  if (name.includes('\0') || !name.isWellFormed()) return 'must have a name without NUL';
  return Buffer.byteLength(name) > NAME_BYTES_MAX ? `must have a name of at most ${NAME_BYTES_MAX} bytes of UTF-8` : null;
}
