import { hash, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';

import { base62 } from '../../crypto/base62.ts';

const PREFIX = 'mk_';
const RANDOM_BYTES = 32;
/** The number of base-62 digits of 32 bytes, and of a CRC-32. */
const RANDOM_LENGTH = 43;
const CHECKSUM_LENGTH = 6;
const SHOWN_PREFIX_LENGTH = 11;

/**
 * Returns a new key: `mk_`, 43 random characters, and 6 characters of their CRC-32, so that secret scanners recognise it and a mistyped
 * key is refused without a lookup.
 */
export function newRawKey(): string {
  const random = base62(randomBytes(RANDOM_BYTES));
  return `${PREFIX}${random}${checksumOf(random)}`;
}

export function isWellFormed(rawKey: string): boolean {
  if (!/^mk_[0-9A-Za-z]{49}$/.test(rawKey)) return false;
  const random = rawKey.slice(PREFIX.length, PREFIX.length + RANDOM_LENGTH);
  return rawKey.slice(-CHECKSUM_LENGTH) === checksumOf(random);
}

/** Returns the part of the key that a list may show. */
export function prefixOf(rawKey: string): string {
  return rawKey.slice(0, SHOWN_PREFIX_LENGTH);
}

/** Returns the SHA-256 in hex. A key has 256 random bits, so no slow hash is needed. */
export function sha256Of(rawKey: string): string {
  return hash('sha256', rawKey);
}

function checksumOf(random: string): string {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(crc32(random));
  return base62(bytes);
}
