import type { ClientRequest } from 'node:http';

/** The number of informational responses such as `100 Continue` at most. */
const INFORMATIONAL_MAX = 16;

/** Calls `end` after more than 16 informational responses, of which Node would read any number. */
export function onTooManyInformational(asking: ClientRequest, end: () => void): void {
  let count = 0;
  asking.on('information', () => {
    count += 1;
    if (count === INFORMATIONAL_MAX + 1) end();
  });
}
