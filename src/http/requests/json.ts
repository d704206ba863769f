import { isAscii, isUtf8, transcode } from 'node:buffer';

import { type FieldError, ProblemError } from '../../kernel/errors/problem-error.ts';

const DEPTH_MAX = 64;
/**
 * The bounds on the members of one object or elements of one array, and on all of them together, because later work takes more than linear
 * time.
 */
const MEMBERS_MAX = 250;
const PARTS_MAX = 1_000;

/** The bounds on the bodies of a route with bounds of its own. */
export interface JsonBounds {
  /** The most members and elements in total. */
  partsMax: number;
  /** Returns the refusal of a body that has too many parts, in one place or in total, or is too deep. */
  refuse: (message: string) => ProblemError;
}

const BOUNDS: JsonBounds = {
  partsMax: PARTS_MAX,
  refuse: (message) => new ProblemError('invalid_request', `body: ${message}`, { errors: [{ field: 'body', message }] }),
};
/** The most invalid fields that a response names. */
const ERRORS_MAX = 20;
/** The most characters of a field's name in a response. */
const NAMED_MAX = 200;
/** The byte order mark that some editors write at the beginning of a text. */
const BYTE_ORDER_MARK = '\uFEFF';

/** Returns the parsed value; undefined for an empty body. Throws `invalid_request`, and the refusal in the bounds. */
export function parseJson(bytes: Buffer, bounds: JsonBounds = BOUNDS): unknown {
  if (bytes.length === 0) return undefined;
  checkSize(bytes, bounds);
  let value: unknown;
  try {
    value = JSON.parse(textOf(bytes));
  } catch {
    throw new ProblemError('invalid_request', 'The body is not well-formed JSON in UTF-8.');
  }
  const errors: FieldError[] = [];
  checkText(value, '', errors);
  if (errors.length > 0)
    throw new ProblemError('invalid_request', errors.map((error) => `${error.field}: ${error.message}`).join('; '), { errors });
  return value;
}

/**
 * Decodes the bytes; throws if they are not UTF-8. Decoding by way of UTF-16 takes a quarter of the time of direct decoding, and ASCII,
 * which most bodies are, takes even less.
 */
function textOf(bytes: Buffer): string {
  if (isAscii(bytes)) return bytes.toString('latin1');
  if (!isUtf8(bytes)) throw new TypeError('the text is not UTF-8');
  const text = transcode(bytes, 'utf8', 'utf16le').toString('utf16le');
  return text.startsWith(BYTE_ORDER_MARK) ? text.slice(BYTE_ORDER_MARK.length) : text;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
/** `[` and `{` differ in one bit, and so do `]` and `}`. With this bit set, they are `{` and `}`. */
const CASE = 0x20;
const CLOSING = 0x7d;
/** The value is 1 for structural bytes, and 0 for those of white space, numbers and words, which are skipped fast. */
const isStructure = Uint8Array.from({ length: 256 }, (_, byte) => ('"[]{},'.includes(String.fromCharCode(byte)) ? 1 : 0));

/** Refuses a body that is too deep or has too many parts before it is parsed, by one pass over the bytes that allocates nothing. */
function checkSize(bytes: Buffer, { partsMax, refuse }: JsonBounds): void {
  const members = new Uint32Array(DEPTH_MAX + 1);
  let depth = 0;
  let parts = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] as number;
    if (isStructure[byte] === 0) continue;
    if (byte === QUOTE) at = endOfString(bytes, at);
    else if ((byte | CASE) === CLOSING) depth = Math.max(0, depth - 1);
    else if (byte === COMMA) {
      const count = (members[depth] as number) + 1;
      if (count > MEMBERS_MAX) throw refuse(`has more than ${MEMBERS_MAX} members or elements in one place`);
      members[depth] = count;
      parts += 1;
    } else {
      depth += 1;
      if (depth > DEPTH_MAX) throw refuse(`is nested more than ${DEPTH_MAX} levels deep`);
      members[depth] = 1;
      parts += 1;
    }
    if (parts > partsMax) throw refuse(`has more than ${partsMax} members and elements in all`);
  }
}

/** Returns the offset of the end of the string that begins at the offset. */
function endOfString(bytes: Buffer, start: number): number {
  let at = start + 1;
  const quote = bytes.indexOf(QUOTE, at);
  const next = quote === -1 ? bytes.length : quote;
  if (!bytes.subarray(at, next).includes(BACKSLASH)) return next;
  while (at < bytes.length && bytes[at] !== QUOTE) at += bytes[at] === BACKSLASH ? 2 : 1;
  return at;
}

/** The members that the framework drops silently. They are refused, so that nothing is lost. */
const lostNames = new Set(['__proto__', 'constructor', 'prototype']);

/** Refuses text that PostgreSQL can't store, and names that reach an object's prototype. */
function checkText(value: unknown, field: string, errors: FieldError[]): void {
  const refuse = (message: string) => {
    if (errors.length < ERRORS_MAX) errors.push({ field: field || 'body', message });
  };
  if (typeof value === 'string' && !isPlainText(value)) refuse('holds NUL or half of a surrogate pair');
  if (typeof value !== 'object' || value === null) return;
  if (Array.isArray(value)) return value.forEach((item, index) => checkText(item, joined(field, String(index)), errors));
  for (const [key, member] of Object.entries(value)) {
    if (lostNames.has(key) || !isPlainText(key)) refuse('has a member whose name is not allowed');
    else checkText(member, joined(field, key), errors);
  }
}

function isPlainText(text: string): boolean {
  return !text.includes('\0') && text.isWellFormed();
}

function joined(field: string, name: string): string {
  return shorten(field === '' ? name : `${field}.${name}`);
}

/** Returns a field's name in the form in which a response shows it. */
export function shorten(field: string): string {
  return field.length <= NAMED_MAX ? field : `${field.slice(0, NAMED_MAX).toWellFormed()}…`;
}
