import { appendFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';

/** The marks that an agent of another protocol leaves on its volume, if it runs as an agent of a service. */

const { MOORING_VOLUME: volume } = process.env;
const LOOK_MS = 20;

/** Notes that a turn begins. */
export function noteTurn(thread, text) {
  if (volume !== undefined) appendFileSync(join(volume, 'turns'), `${thread} ${text}\n`);
}

/** Waits until the file `go` is on the volume. */
export async function untilReleased() {
  while (!existsSync(join(volume, 'go'))) await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
}
