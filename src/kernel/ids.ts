import { randomFillSync } from 'node:crypto';

import { v7 as uuidv7 } from 'uuid';

const POOL_BYTES = 4_096;
const ID_BYTES = 16;

/** Random bytes for many values, since fetching them from the system for each request would cost more than their use. */
const pool = Buffer.alloc(POOL_BYTES);
let used = POOL_BYTES;

/** Returns at most 64 random bytes, for ids and nonces, which are not secrets. Each byte of the pool is used once. */
export function pooledRandomBytes(count: number): Buffer {
  if (used + count > POOL_BYTES) {
    randomFillSync(pool);
    used = 0;
  }
  used += count;
  return Buffer.from(pool.subarray(used - count, used));
}

/** Returns a UUIDv7. */
export function newId(): string {
  return uuidv7({ random: pooledRandomBytes(ID_BYTES) });
}
