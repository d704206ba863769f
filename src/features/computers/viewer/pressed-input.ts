/** The most keys that one browser may hold down at once; a press of another one is not passed on. */
export const PRESSED_KEYS_MAX = 64;

const KEY = 4;
const POINTER = 5;

/** The keys and buttons that a browser holds down, by the messages with which it pressed them. */
export class PressedInput {
  private readonly keys = new Map<string, Buffer>();
  private pointer: Buffer | null = null;

  /** Takes a message of input in. Returns false for one that must not be passed on, since too many keys are down. */
  note(message: Buffer): boolean {
    // A message may be a part of a larger buffer, which must not be kept for it.
    if (message[0] === POINTER) {
      this.pointer = message[1] === 0 ? null : Buffer.from(message);
      return true;
    }
    const { from, to } = downAt(message);
    const name = message.toString('latin1', to);
    const isDown = message.subarray(from, to).some((byte) => byte !== 0);
    if (!isDown) this.keys.delete(name);
    else if (this.keys.size >= PRESSED_KEYS_MAX && !this.keys.has(name)) return false;
    else this.keys.set(name, Buffer.from(message));
    return true;
  }

  /** Returns the messages that release everything that is down, which is then up. */
  release(): Buffer[] {
    const messages = [...this.keys.values()].map((message) => {
      const { from, to } = downAt(message);
      return message.fill(0, from, to);
    });
    if (this.pointer !== null) messages.push(this.pointer.fill(0, 1, 2));
    this.keys.clear();
    this.pointer = null;
    return messages;
  }
}

/** Returns the part of a message of a key that says whether the key went down. The key itself follows it. */
function downAt(message: Buffer): { from: number; to: number } {
  return message[0] === KEY ? { from: 1, to: 2 } : { from: 2, to: 4 };
}
