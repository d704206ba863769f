import { randomBytes, scrypt, timingSafeEqual, type ScryptOptions } from 'node:crypto';

/** The scrypt parameters that OWASP recommends: 32 MiB and three passes. */
const COST = { log2N: 15, r: 8, p: 3 };
const HASH_BYTES = 32;

/** Returns `scrypt$<log2 N>$<r>$<p>$<salt>$<hash>`. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(16);
  const hash = await deriveHash(password, salt, COST);
  return ['scrypt', COST.log2N, COST.r, COST.p, salt.toString('base64'), hash.toString('base64')].join('$');
}

/** Returns whether the password is right. If `stored` is null (there is no such account) it takes the same time and returns false. */
export async function verifyPassword(password: string, stored: string | null): Promise<boolean> {
  const [, log2N, r, p, salt = '', hash = ''] = (stored ?? PLACEHOLDER_HASH).split('$');
  const expected = Buffer.from(hash, 'base64');
  const actual = await deriveHash(password, Buffer.from(salt, 'base64'), { log2N: Number(log2N), r: Number(r), p: Number(p) });
  return timingSafeEqual(actual, expected) && stored !== null;
}

const PLACEHOLDER_HASH = [
  'scrypt',
  COST.log2N,
  COST.r,
  COST.p,
  randomBytes(16).toString('base64'),
  randomBytes(HASH_BYTES).toString('base64'),
].join('$');

function deriveHash(password: string, salt: Buffer, { log2N, r, p }: typeof COST): Promise<Buffer> {
  const options: ScryptOptions = { N: 2 ** log2N, r, p, maxmem: 256 * 2 ** log2N * r };
  return new Promise((resolve, reject) =>
    scrypt(password.normalize('NFC'), salt, HASH_BYTES, options, (error, hash) => (error ? reject(error) : resolve(hash))),
  );
}
