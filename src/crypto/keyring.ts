import type { KeyObject } from 'node:crypto';

/** A value as it is stored in an event or a row: AES-256-GCM under the data key of its subject. Binary members are base64. */
export interface Sealed {
  /** The version of this format. */
  v: 1;
  /** The version of the subject's data key. */
  key: number;
  iv: string;
  /** The ciphertext, followed by the 16-byte tag. */
  ct: string;
}

/**
 * Data keys, one per subject (an agent id), wrapped by the master key and kept outside the log. Shredding a subject destroys its data key:
 * nobody can read what was sealed for it, in any copy of the log.
 */
export abstract class Keyring {
  /**
   * Seals the value. `context` binds it to its place (stream, field): it can't be opened with another. Throws if the subject was shredded.
   */
  abstract seal(subject: string, context: string, plain: string): Promise<Sealed>;
  /** Returns the value, or null if the subject was shredded. Throws if the value was tampered with or has another context. */
  abstract open(subject: string, context: string, sealed: Sealed): Promise<string | null>;
  /**
   * Returns a key for message authentication codes. It comes from the subject's data key, so that it is the same for ever, in all replicas and
   * after a rotation of the master key. Throws if the subject was shredded.
   */
  abstract macKey(subject: string, purpose: string): Promise<KeyObject>;
  /** Destroys the subject's keys for good: no key can be made for the subject again. Idempotent. */
  abstract shred(subject: string): Promise<void>;
}
