import { randomFillSync } from 'node:crypto';

import { v7 as uuidv7 } from 'uuid';

const POOL_BYTES = 4_096;
const ID_BYTES = 16;

/** Asked of the system for many values at once: the question costs a request more than what the bytes are for. */
const pool = Buffer.alloc(POOL_BYTES);
let used = POOL_BYTES;

/** At most 64 random bytes, for ids and nonces, which are no secrets. Each byte of the pool is given once. */
export function pooledRandomBytes(count: number): Buffer {
  if (used + count > POOL_BYTES) {
    randomFillSync(pool);
    used = 0;
  }
  used += count;
  return Buffer.from(pool.subarray(used - count, used));
}

/** A UUIDv7. */
export function newId(): string {
  return uuidv7({ random: pooledRandomBytes(ID_BYTES) });
}
