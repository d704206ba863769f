/** The most keys that one browser may hold down. Further presses are dropped. */
export const PRESSED_KEYS_MAX = 64;

const KEY = 4;
const POINTER = 5;

/** The keys and buttons that a browser holds down, with the messages that pressed them. */
export class PressedInput {
  private readonly keys = new Map<string, Buffer>();
  private pointer: Buffer | null = null;

  /** Tracks an input message. Returns false if it must not be passed on because too many keys are down. */
  track(message: Buffer): boolean {
    // The message is copied, because it may be a part of a larger buffer.
    if (message[0] === POINTER) {
      this.pointer = message[1] === 0 ? null : Buffer.from(message);
      return true;
    }
    const { from, to } = locateDownFlag(message);
    const name = message.toString('latin1', to);
    const isDown = message.subarray(from, to).some((byte) => byte !== 0);
    if (!isDown) this.keys.delete(name);
    else if (this.keys.size >= PRESSED_KEYS_MAX && !this.keys.has(name)) return false;
    else this.keys.set(name, Buffer.from(message));
    return true;
  }

  /** Returns the messages that release everything that is pressed. */
  release(): Buffer[] {
    const messages = [...this.keys.values()].map((message) => {
      const { from, to } = locateDownFlag(message);
      return message.fill(0, from, to);
    });
    if (this.pointer !== null) messages.push(this.pointer.fill(0, 1, 2));
    this.keys.clear();
    this.pointer = null;
    return messages;
  }
}

/** Returns the place of the flag in a key message that says whether the key was pressed. The key itself follows it. */
function locateDownFlag(message: Buffer): { from: number; to: number } {
  return message[0] === KEY ? { from: 1, to: 2 } : { from: 2, to: 4 };
}
