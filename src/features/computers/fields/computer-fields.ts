import { keyProblem } from '../../environment/index.ts';
import { valueProblem } from '../../secrets/index.ts';
import { VARIABLES_MAX } from '../aggregate/computers.decider.ts';
import type { ComputerSize } from '../aggregate/computers.events.ts';

export const sizes: readonly ComputerSize[] = ['small', 'medium', 'large'];

/** The variables that the desktop itself needs. */
const OWN_VARIABLES = ['DISPLAY', 'HOME', 'XDG_RUNTIME_DIR', 'TZ'];
/** The most invalid variables that one message lists. */
const NAMED_MAX = 10;

const bounds = { width: [640, 2560], height: [480, 1600] } as const;

/** Returns what is wrong with the id, or null. */
export function endUserRule(id: string): string | null {
  return /^[A-Za-z0-9._:@-]{1,128}$/.test(id) ? null : 'must have 1 to 128 characters, each a letter, a digit or one of . _ : @ -';
}

/** Returns what is wrong with the name of a time zone, or null. */
export function timezoneRule(name: string): string | null {
  const message = 'must be the IANA name of a time zone, such as Europe/Berlin';
  if (!/^[A-Za-z][A-Za-z0-9_+/-]{0,63}$/.test(name)) return message;
  try {
    Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions();
    return null;
  } catch {
    return message;
  }
}

/** Returns what is wrong with an idle time in seconds, or null. */
export function idleTimeoutMessage(value: unknown): string | null {
  const fits = Number.isInteger(value) && (value === 0 || ((value as number) >= 60 && (value as number) <= 86_400));
  return fits ? null : 'must be 0 (never sleeps) or a whole number of seconds from 60 to 86400';
}

/** Returns what is wrong with the size of a screen, or null. */
export function displayMessage(value: unknown): string | null {
  const fits =
    typeof value === 'object' &&
    value !== null &&
    Object.keys(value)
      .toSorted((a, b) => (a < b ? -1 : 1))
      .join() === 'height,width' &&
    Object.entries(bounds).every(([side, [min, max]]) => {
      const pixels = (value as Record<string, unknown>)[side];
      return Number.isInteger(pixels) && (pixels as number) >= min && (pixels as number) <= max;
    });
  return fits ? null : 'must be {"width": 640 to 2560, "height": 480 to 1600}';
}

export const variablesMessage = (value: unknown) =>
  messageOf(value, (given) => (typeof given === 'string' ? valueProblem(given) : 'must be a string'));

/** Like `variablesProblem`, for changes, in which null removes a variable. */
export const variableChangesMessage = (value: unknown) =>
  messageOf(value, (given) => {
    if (given === null) return null;
    return typeof given === 'string' ? valueProblem(given) : 'must be a string or null';
  });

function messageOf(value: unknown, problemOf: (given: unknown) => string | null): string | null {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 'must be an object of strings';
  const entries = Object.entries(value);
  if (entries.length > VARIABLES_MAX) return `must have at most ${VARIABLES_MAX} variables`;
  const bad = entries.flatMap(([key, given]) => {
    const problem = nameProblem(key) ?? problemOf(given);
    return problem === null ? [] : [`${JSON.stringify(key.slice(0, 50))} ${problem}`];
  });
  return bad.length === 0 ? null : bad.slice(0, NAMED_MAX).join('; ');
}

function nameProblem(key: string): string | null {
  return OWN_VARIABLES.includes(key) ? `${key} is set by the service itself` : keyProblem(key);
}
