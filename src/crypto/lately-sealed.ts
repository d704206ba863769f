import type { Sealed } from './keyring.ts';

/** The most UTF-16 units of a text, which take 2 bytes each. */
const TEXT_UNITS_MAX = 8 * 1_024;
/** The bound on all that is kept, in bytes, and on its age, in ms. */
const BYTES_MAX = 8 * 1_024 * 1_024;
const KEPT_MS = 10_000;

interface Entry {
  place: string;
  cipherText: string;
  plain: string;
  bytes: number;
  until: number;
}

/**
 * Keeps texts that were sealed just now for the one reader that each of them has: at most 16 KiB each, 8 MiB in all with what belongs to them, and
 * for 10 s, the newest. It gives out nothing but the text of exactly that ciphertext, and only once. A text that is dropped for others costs its
 * reader one decryption.
 */
export class LatelySealed {
  /** The entries by nonce, which no two values share; the oldest first. */
  private readonly entries = new Map<string, Entry>();
  private bytes = 0;
  private timer: NodeJS.Timeout | null = null;

  add(subject: string, context: string, { iv, ct }: Sealed, plain: string): void {
    // Decrypting would replace what is no well-formed text.
    if (plain.length > TEXT_UNITS_MAX || !plain.isWellFormed()) return;
    const place = placeOf(subject, context);
    const bytes = 2 * plain.length + ct.length + 2 * place.length;
    this.entries.set(iv, { place, cipherText: ct, plain, bytes, until: performance.now() + KEPT_MS });
    this.bytes += bytes;
    for (const nonce of this.entries.keys()) {
      if (this.bytes <= BYTES_MAX) break;
      this.remove(nonce);
    }
    this.timer ??= setTimeout(() => this.expire(), KEPT_MS).unref();
  }

  /** Returns the text, which is then kept no longer; null if it is not kept. */
  consume(subject: string, context: string, { iv, ct }: Sealed): string | null {
    const entry = this.entries.get(iv);
    if (entry === undefined || entry.cipherText !== ct || entry.place !== placeOf(subject, context)) return null;
    this.remove(iv);
    return entry.plain;
  }

  private expire(): void {
    this.timer = null;
    const now = performance.now();
    for (const [nonce, { until }] of this.entries) {
      if (until > now) {
        this.timer = setTimeout(() => this.expire(), until - now).unref();
        return;
      }
      this.remove(nonce);
    }
  }

  private remove(nonce: string): void {
    this.bytes -= this.entries.get(nonce)?.bytes ?? 0;
    this.entries.delete(nonce);
  }
}

function placeOf(subject: string, context: string): string {
  return JSON.stringify([subject, context]);
}
