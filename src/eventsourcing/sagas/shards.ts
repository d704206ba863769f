import { hash } from 'node:crypto';

/** The number of shards over which the keys of every saga are spread; a key is in the same shard for all sagas. */
export const SHARDS = 64;

/** Returns the shard of a key, which is the same in every version and on every replica. */
export function shardOf(key: string): number {
  return (hash('sha256', key, 'buffer')[0] as number) % SHARDS;
}

/** The shard of the column `key`, as an SQL expression. */
export const SHARD_OF_KEY = `get_byte(sha256(convert_to(key, 'UTF8')), 0) % ${SHARDS}`;
