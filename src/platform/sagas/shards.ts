import { hash } from 'node:crypto';

/** Every saga's keys are spread over so many shards, and a shard is the same for all sagas. */
export const SHARDS = 64;

/** The shard of a key: the same in every version and on every replica. */
export function shardOf(key: string): number {
  return (hash('sha256', key, 'buffer')[0] as number) % SHARDS;
}

/** The same in SQL, of the column `key`. */
export const SHARD_OF_KEY = `get_byte(sha256(convert_to(key, 'UTF8')), 0) % ${SHARDS}`;
