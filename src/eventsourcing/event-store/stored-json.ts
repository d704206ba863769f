import type { Json, JsonObject } from './event-definition.ts';

/** The deepest nesting of arrays and objects that can be stored. */
export const DEPTH_MAX = 64;

const replacement = '\uFFFD';
const unstorable = /\0|[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g;
/**
 * Matches the escapes that JSON.stringify writes for what `unstorable` matches. It also matches an escaped backslash before such letters,
 * which only costs an extra check.
 */
const suspicious = /\\u0000|\\ud[89a-f]/;

/**
 * Returns the JSON text that is stored for a value. NUL and lone surrogates, which PostgreSQL can't return as text, become U+FFFD, also in
 * member names. Throws `TypeError` if the value is not JSON, or is nested deeper than 64 levels.
 */
export function storedJson(value: JsonObject): string {
  check(value, 1);
  const text = JSON.stringify(value);
  return suspicious.test(text) ? JSON.stringify(cleaned(value)) : text;
}

function check(value: unknown, depth: number): void {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return;
    case 'number':
      if (!Number.isFinite(value)) throw new TypeError(`${value} can't be stored in an event`);
      return;
    case 'object':
      if (value !== null) checkMembers(value, depth);
      return;
    default:
      throw new TypeError(`a ${typeof value} can't be stored in an event`);
  }
}

function checkMembers(value: object, depth: number): void {
  if (depth > DEPTH_MAX) throw new TypeError(`an event can't be deeper than ${DEPTH_MAX} levels`);
  if ('toJSON' in value && typeof value.toJSON === 'function')
    throw new TypeError(`a ${value.constructor.name} can't be stored in an event`);
  if (Array.isArray(value)) for (const item of value) check(item, depth + 1);
  // JSON.stringify omits an absent optional member.
  else for (const member of Object.values(value)) if (member !== undefined) check(member, depth + 1);
}

function cleaned(value: Json): Json {
  if (typeof value === 'string') return value.replace(unstorable, replacement);
  if (Array.isArray(value)) return value.map(cleaned);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, member]) => member !== undefined)
      .map(([name, member]) => [name.replace(unstorable, replacement), cleaned(member)]),
  );
}
