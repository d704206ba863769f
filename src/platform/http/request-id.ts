import { randomFillSync } from 'node:crypto';

import { v7 as uuidv7 } from 'uuid';

const ID_BYTES = 16;

/** Random bytes for 256 ids: to ask the system for them anew costs each request more than the id itself. */
const pool = new Uint8Array(256 * ID_BYTES);
let used = pool.length;

/** A UUIDv7. */
export function newRequestId(): string {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  used += ID_BYTES;
  return uuidv7({ random: pool.subarray(used - ID_BYTES, used) });
}
