/** A value as it stands in an event or a row: AES-256-GCM under a subject's own data key. Base64 members. */
export interface Sealed {
  /** Version of this form. */
  v: 1;
  /** Version of the subject's data key. */
  key: number;
  iv: string;
  /** Cipher text, then the 16-byte tag. */
  ct: string;
}

/**
 * Data keys, one per subject (an agent id), wrapped by the master key and kept outside the log. To shred a subject is to
 * destroy its data key: what was sealed for it can't be read by anybody, from no copy of the log.
 */
export abstract class Keyring {
  /** `context` binds the value to its place (stream, field): it opens nowhere else. Throws where the subject was shredded. */
  abstract seal(subject: string, context: string, plain: string): Promise<Sealed>;
  /** The value, or null where the subject was shredded. Throws where it was tampered with or bears another context. */
  abstract open(subject: string, context: string, sealed: Sealed): Promise<string | null>;
  /** Destroys the subject's keys. Idempotent; no key can be made for that subject again. */
  abstract shred(subject: string): Promise<void>;
}
