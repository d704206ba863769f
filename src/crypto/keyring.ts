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

/** Options of a value, of which the caller can answer for what they need. */
export interface KeyUse {
  /**
   * The log tells when the subject ends (`rememberUntilEnded`), so its key may be used without a look at the table until then. Otherwise a key
   * is read again after a second.
   */
  endIsLogged?: boolean;
  /** The value is sealed for one reader that comes at once, often in this process, which gets it without decrypting it. */
  isReadNext?: boolean;
}

/** The part of the process that follows the log, as the keyring sees it. */
export interface FollowedLog {
  /** The time (of `performance.now()`) at which everything that was in the log had been passed on here; -Infinity if that was never known. */
  readonly currentAt: number;
}

/** Tells the keyring what the log says about subjects. */
export interface SubjectEnds {
  /** Drops the subject's keys. From then on they are read again after a second. */
  onEnd(subject: string): void;
  /** Drops all keys, since the ends of subjects may have been missed. */
  onGap(): void;
}

/**
 * Data keys, one per subject (an agent id), wrapped by the master key and stored outside the log. Shredding a subject destroys its data
 * key: nobody can read what was sealed for it, in any copy of the log.
 */
export abstract class Keyring {
  /** Seals the value. `context` (stream, field) binds it: it can't be opened with another context. Throws if the subject was shredded. */
  abstract seal(subject: string, context: string, plain: string, use?: KeyUse): Promise<Sealed>;
  /** Returns the value, or null if the subject was shredded. Throws if the value was tampered with or has another context. */
  abstract open(subject: string, context: string, sealed: Sealed, use?: KeyUse): Promise<string | null>;
  /**
   * Returns a key for message authentication codes. It is derived from the subject's data key, so it is the same forever, in all replicas
   * and after a rotation of the master key. Throws if the subject was shredded.
   */
  abstract macKey(subject: string, purpose: string): Promise<KeyObject>;
  /**
   * Lets keys with `endIsLogged` be used until the log ends their subjects, as long as all that is in the log is known to have been passed on
   * here within the last second.
   */
  abstract rememberUntilEnded(log: FollowedLog): SubjectEnds;
  /** Destroys the subject's keys for good: no key can be made for the subject again. Idempotent. */
  abstract shred(subject: string): Promise<void>;
}
