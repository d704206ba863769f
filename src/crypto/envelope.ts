import { createCipheriv, createDecipheriv, createHash, createSecretKey, hkdfSync, type KeyObject, randomBytes } from 'node:crypto';

import { pooledRandomBytes } from '../kernel/ids.ts';
import type { Sealed } from './keyring.ts';

const CIPHER = 'aes-256-gcm';
const KEY_BYTES = 32;
/** The size of a nonce: 96 random bits. A repeat under one key is improbable, since each subject has its own (after 2^32 values: 2^-33). */
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** Returns an id of a master key that does not reveal it: the first 8 bytes of its SHA-256, in hex. */
export function keyIdOf(masterKey: Buffer): string {
  return createHash('sha256').update(masterKey).digest('hex').slice(0, 16);
}

export function newDataKey(): Buffer {
  return randomBytes(KEY_BYTES);
}

/** Encrypts the data key with the master key: nonce, ciphertext, tag. It can be unwrapped only for the same subject and version. */
export function wrapDataKey(masterKey: Buffer, subject: string, version: number, dataKey: Buffer): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  return Buffer.concat([nonce, encrypt(masterKey, nonce, dataKeyAad(subject, version), dataKey)]);
}

/**
 * Returns the data key as an object, because with bytes Node 24 takes three times as long for each value. Throws if it was tampered with,
 * or belongs to another subject, version or master key.
 */
export function unwrapDataKey(masterKey: Buffer, subject: string, version: number, wrapped: Buffer): KeyObject {
  const nonce = wrapped.subarray(0, NONCE_BYTES);
  return createSecretKey(decrypt(masterKey, nonce, dataKeyAad(subject, version), wrapped.subarray(NONCE_BYTES)));
}

/** Encrypts a master key with another one for one rotation, in the form of a wrapped data key. */
export function wrapMasterKey(by: Buffer, rotationId: string, masterKey: Buffer): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  return Buffer.concat([nonce, encrypt(by, nonce, masterKeyAad(rotationId), masterKey)]);
}

/** Returns the master key. Throws if it was tampered with, or belongs to another rotation or key. */
export function unwrapMasterKey(by: Buffer, rotationId: string, wrapped: Buffer): Buffer {
  return decrypt(by, wrapped.subarray(0, NONCE_BYTES), masterKeyAad(rotationId), wrapped.subarray(NONCE_BYTES));
}

export function sealText(dataKey: KeyObject, place: { subject: string; context: string; version: number }, plain: string): Sealed {
  const nonce = pooledRandomBytes(NONCE_BYTES);
  const cipherText = encrypt(dataKey, nonce, valueAad(place), Buffer.from(plain, 'utf8'));
  return { v: 1, key: place.version, iv: nonce.toString('base64'), ct: cipherText.toString('base64') };
}

/** Decrypts the value. Throws if it was tampered with, or was sealed for another context. */
export function openText(dataKey: KeyObject, place: { subject: string; context: string }, sealed: Sealed): string {
  const additional = valueAad({ ...place, version: sealed.key });
  return decrypt(dataKey, Buffer.from(sealed.iv, 'base64'), additional, Buffer.from(sealed.ct, 'base64')).toString('utf8');
}

/** Derives a key for message authentication codes from the data key (HKDF), which itself only encrypts. */
export function deriveMacKey(dataKey: KeyObject, subject: string, purpose: string): KeyObject {
  const info = JSON.stringify(['mac', subject, purpose]);
  return createSecretKey(Buffer.from(hkdfSync('sha256', dataKey, Buffer.alloc(0), info, KEY_BYTES)));
}

function encrypt(key: Buffer | KeyObject, nonce: Buffer, additional: Buffer, plain: Buffer): Buffer {
  const cipher = createCipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES });
  cipher.setAAD(additional);
  return Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
}

function decrypt(key: Buffer | KeyObject, nonce: Buffer, additional: Buffer, cipherText: Buffer): Buffer {
  if (nonce.length !== NONCE_BYTES || cipherText.length < TAG_BYTES) throw new Error('sealed value is malformed');
  const tagAt = cipherText.length - TAG_BYTES;
  const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES });
  decipher.setAAD(additional);
  decipher.setAuthTag(cipherText.subarray(tagAt));
  return Buffer.concat([decipher.update(cipherText.subarray(0, tagAt)), decipher.final()]);
}

/**
 * Returns the additional data that binds a value to its context. JSON separates the parts, so that no other subject and context result in
 * the same bytes.
 */
function valueAad({ subject, context, version }: { subject: string; context: string; version: number }): Buffer {
  return Buffer.from(JSON.stringify(['value', subject, context, version]), 'utf8');
}

function dataKeyAad(subject: string, version: number): Buffer {
  return Buffer.from(JSON.stringify(['data-key', subject, version]), 'utf8');
}

function masterKeyAad(rotationId: string): Buffer {
  return Buffer.from(JSON.stringify(['master-key', rotationId]), 'utf8');
}
