import { Refusal } from '../../errors/refusal.ts';

/** Returns the cursor of the next page: the sort values of the last item of this page. It is opaque to callers. */
export function encodeCursor(place: readonly (string | number)[]): string {
  return Buffer.from(JSON.stringify(place)).toString('base64url');
}

/** Returns the sort values, or null without a cursor. Throws `invalid_request` unless `encodeCursor` made the cursor of `length` parts. */
export function decodeCursor(cursor: string | undefined, length: number): (string | number)[] | null {
  if (cursor === undefined) return null;
  const place = parsed(cursor);
  if (Array.isArray(place) && place.length === length && place.every((part) => typeof part === 'string' || Number.isFinite(part)))
    return place as (string | number)[];
  throw invalidCursor();
}

/** Returns the error that a list throws if the values in a cursor are not its own. */
export function invalidCursor(): Refusal {
  return new Refusal('invalid_request', 'The cursor is not one that this service gave.', {
    errors: [{ field: 'cursor', message: 'is not a cursor of this list' }],
  });
}

function parsed(cursor: string): unknown {
  try {
    const text = Buffer.from(cursor, 'base64url').toString();
    return text.includes('\\u0000') ? null : (JSON.parse(text) as unknown);
  } catch {
    return null;
  }
}
