/** The most bytes of a value, in UTF-8. */
export const VALUE_BYTES_MAX = 32_768;
/** The number of characters that a mask shows, and the length from which a value shows any. */
const SHOWN = 4;
const SHOWN_FROM = 12;
const HIDDEN = '•'.repeat(8);

/** Returns what is wrong with the name of a secret, or null. */
export function secretNameProblem(name: string): string | null {
  if (/^[a-z0-9][a-z0-9_-]{0,62}$/.test(name)) return null;
  return 'must begin with a lower-case letter or a digit, go on with those, _ or -, and have at most 63 characters';
}

/** Returns what is wrong with the value of a variable or a secret, or null. */
export function valueProblem(value: string): string | null {
  if (utf8Bytes(value) > VALUE_BYTES_MAX) return `must have at most ${VALUE_BYTES_MAX} bytes`;
  return /[\0\p{Cs}]/u.test(value) ? 'must hold neither NUL nor half of a surrogate pair' : null;
}

/** Returns the mask of a value: the first 4 characters of a long value (12 or more), and always 8 bullets. */
export function maskOf(value: string): string {
  const characters = Array.from(value);
  return `${characters.length >= SHOWN_FROM ? characters.slice(0, SHOWN).join('') : ''}${HIDDEN}`;
}

function utf8Bytes(text: string): number {
  return new TextEncoder().encode(text).length;
}
