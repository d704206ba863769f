/** What V8 takes, about, for an object, for each of its members, and for an entry of a map (bytes). */
const OBJECT_BYTES = 32;
const MEMBER_BYTES = 8;
const ENTRY_BYTES = 40;
const STRING_BYTES = 24;

/**
 * An estimate of the memory (bytes) that a value takes, by a walk that costs nothing for the length of a text. A text counts one byte a
 * character, as V8 keeps Latin-1, which sealed values and ids are; other text takes twice that. Names of members are not counted, since
 * objects of one form share them. Measured on states of the service, it is between 0.8 and 1.5 times what the heap grows by.
 */
export function sizeOf(value: unknown): number {
  let bytes = 0;
  const left: unknown[] = [value];
  while (left.length > 0) {
    const next = left.pop();
    if (typeof next === 'string') bytes += STRING_BYTES + next.length;
    else if (typeof next === 'number') bytes += MEMBER_BYTES;
    else if (typeof next === 'object' && next !== null) bytes += OBJECT_BYTES + members(next, left);
  }
  return bytes;
}

/** Puts what the object holds on the list, and answers what the places for it take. */
function members(value: object, left: unknown[]): number {
  if (value instanceof Map) {
    for (const [key, entry] of value) left.push(key, entry);
    return value.size * ENTRY_BYTES;
  }
  if (value instanceof Set) {
    for (const entry of value) left.push(entry);
    return value.size * ENTRY_BYTES;
  }
  if (ArrayBuffer.isView(value)) return value.byteLength;
  const parts: unknown[] = Array.isArray(value) ? value : Object.values(value);
  for (const part of parts) left.push(part);
  return parts.length * MEMBER_BYTES;
}
