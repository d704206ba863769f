import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import type { CountedBytes } from './conversations.events.ts';

const HOUR_MS = 3_600_000;
/** The number of hours that count: those of a day, and the one in which that day began. */
const HOURS_COUNTED = 25;
/** The least that a webhook counts as, in bytes: its events, and its rows in the read models, take that much, however short it is. */
const COUNTED_BYTES_MIN = 8_192;

/** The bytes of the webhooks without a token of one hour. */
export interface BytesOfHour {
  /** The number of the hour since 1970. */
  hour: number;
  bytes: number;
}

/** The size of a webhook without a token, and the most that an agent takes of such webhooks in a day, in bytes. */
export interface DailyBytes {
  bytes: number;
  bytesPerDay: number;
}

/** Returns the bytes that a webhook counts as: those of its body or of its headers, whichever are more. */
export function countedBytes(body: number, headers: number): number {
  return Math.max(body, headers, COUNTED_BYTES_MIN);
}

/** Throws `rate_limited`, with the time to wait, if the webhook and those of the last day exceed what an agent takes in a day. */
export function refuseBeyondDay({ bytes, bytesPerDay }: DailyBytes, hours: readonly BytesOfHour[], now: Date): void {
  const oldest = Math.floor(now.getTime() / HOUR_MS) - HOURS_COUNTED;
  const counted = hours.filter(({ hour }) => hour > oldest);
  let excess = counted.reduce((sum, each) => sum + each.bytes, bytes) - bytesPerDay;
  if (excess <= 0) return;
  const leaving = counted.find((each) => (excess -= each.bytes) <= 0) ?? counted.at(-1);
  const waitMs = leaving === undefined ? HOUR_MS : (leaving.hour + HOURS_COUNTED) * HOUR_MS - now.getTime();
  throw new ProblemError('rate_limited', `The agent takes ${bytesPerDay} bytes of webhooks without its token in a day.`, {
    retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1_000)),
  });
}

/** Returns the hours of the last day, oldest first, after a webhook was counted. */
export function withCounted(hours: BytesOfHour[], counted: CountedBytes | undefined): BytesOfHour[] {
  if (counted === undefined) return hours;
  const hour = Math.floor(Date.parse(counted.at) / HOUR_MS);
  const before = hours.find((each) => each.hour === hour)?.bytes ?? 0;
  const others = hours.filter((each) => each.hour !== hour && each.hour > hour - HOURS_COUNTED);
  return [...others, { hour, bytes: before + counted.bytes }].toSorted((a, b) => a.hour - b.hour);
}
