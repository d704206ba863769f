import { ProblemError } from '../../kernel/errors/problem-error.ts';

/** Returns the cursor of the next page: the sort values of the last item of this page. It is opaque to callers. */
export function encodeCursor(place: readonly (string | number)[]): string {
  return Buffer.from(JSON.stringify(place)).toString('base64url');
}

/** The kinds of sort values, and their types. */
export interface SortValues {
  /** A time in a form that both PostgreSQL and JavaScript can parse. */
  time: string;
  text: string;
  /** A position in the log. */
  position: string;
  /** A revision of a stream, from 0. */
  revision: number;
  /** A number of events, from 1. */
  count: number;
}

const fits: Record<keyof SortValues, (value: unknown) => boolean> = {
  time: (value) => typeof value === 'string' && !Number.isNaN(Date.parse(value)),
  text: (value) => typeof value === 'string',
  position: (value) => typeof value === 'string' && /^\d{20}$/.test(value),
  revision: (value) => Number.isSafeInteger(value) && (value as number) >= 0,
  count: (value) => Number.isSafeInteger(value) && (value as number) >= 1,
};

/** The sort values of these kinds. */
export type CursorValues<Kinds extends readonly (keyof SortValues)[]> = { [Index in keyof Kinds]: SortValues[Kinds[Index]] };

/** Returns the sort values, or null without a cursor. Throws `invalid_request` unless they are of these kinds. */
export function decodeCursor<const Kinds extends readonly (keyof SortValues)[]>(
  cursor: string | undefined,
  ...kinds: Kinds
): CursorValues<Kinds> | null {
  if (cursor === undefined) return null;
  const place = parsed(cursor);
  if (Array.isArray(place) && place.length === kinds.length && kinds.every((kind, index) => fits[kind](place[index])))
    return place as unknown as CursorValues<Kinds>;
  throw new ProblemError('invalid_request', 'The cursor is not one that this service gave.', {
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
