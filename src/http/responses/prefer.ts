import { ProblemError } from '../../kernel/errors/problem-error.ts';

export const WAIT_SECONDS_MAX = 120;

/** Returns the seconds of `Prefer: wait=N` (RFC 7240); null if the caller does not request a wait. Other preferences are ignored. */
export function parsePrefer(header: string | string[] | undefined): number | null {
  const preferences = [header ?? []].flat().join(',').split(',');
  for (const preference of preferences) {
    const [name, value = ''] = (preference.split(';', 1)[0] ?? '').split('=').map((part) => part.trim());
    if (name?.toLowerCase() !== 'wait') continue;
    const seconds = value.replace(/^"(.*)"$/, '$1');
    if (!/^\d{1,9}$/.test(seconds) || Number(seconds) > WAIT_SECONDS_MAX)
      throw new ProblemError('invalid_request', `Prefer: wait takes 0 to ${WAIT_SECONDS_MAX} seconds.`, {
        errors: [{ field: 'Prefer', message: `wait must be a whole number from 0 to ${WAIT_SECONDS_MAX}` }],
      });
    return Number(seconds);
  }
  return null;
}
