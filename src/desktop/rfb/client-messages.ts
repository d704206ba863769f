/** The encodings that the client announces, including pseudo-encodings. */
export const ENCODING = {
  raw: 0,
  desktopSize: -223,
  cursor: -239,
  fence: -312,
  extendedClipboard: 0xc0a1e5ce | 0,
  cursorPosition: 0x574d5666,
} as const;

/** A bit of a fence's flags: everything before the fence has taken effect when it is answered. */
export const FENCE_BLOCK_BEFORE = 1;
export const FENCE_REQUEST = 0x8000_0000;
/** The flags that the client supports: block before, block after, synchronise the next message. */
const FENCE_FLAGS_KNOWN = 7;

/** Requests 32 bits per pixel: red, green, blue and an unused byte. */
export function setPixelFormat(): Buffer {
  const message = Buffer.alloc(20);
  const [bitsPerPixel, depth, bigEndian, trueColour] = [32, 24, 0, 1];
  message.set([bitsPerPixel, depth, bigEndian, trueColour], 4);
  for (const at of [8, 10, 12]) message.writeUInt16BE(255, at);
  message.set([0, 8, 16], 14);
  return message;
}

export function setEncodings(encodings: readonly number[]): Buffer {
  const message = Buffer.alloc(4 + 4 * encodings.length);
  message[0] = 2;
  message.writeUInt16BE(encodings.length, 2);
  encodings.forEach((encoding, index) => message.writeInt32BE(encoding, 4 + 4 * index));
  return message;
}

/** Requests pixels. With `isIncremental`, the server answers once something has changed. */
export function updateRequest(isIncremental: boolean, width: number, height: number): Buffer {
  const message = Buffer.alloc(10);
  message.set([3, isIncremental ? 1 : 0]);
  message.writeUInt16BE(width, 6);
  message.writeUInt16BE(height, 8);
  return message;
}

export function keyEvent(keysym: number, isDown: boolean): Buffer {
  const message = Buffer.alloc(8);
  message.set([4, isDown ? 1 : 0]);
  message.writeUInt32BE(keysym, 4);
  return message;
}

/** Moves the pointer. `buttons` has a bit for each button that is pressed from then on. */
export function pointerEvent(buttons: number, x: number, y: number): Buffer {
  const message = Buffer.alloc(6);
  message.set([5, buttons]);
  message.writeUInt16BE(x, 2);
  message.writeUInt16BE(y, 4);
  return message;
}

export function fence(flags: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9);
  head[0] = 248;
  head.writeUInt32BE(flags >>> 0, 4);
  head[8] = payload.length;
  return Buffer.concat([head, payload]);
}

/** Answers a fence of the server. */
export function fenceReply(flags: number, payload: Buffer): Buffer {
  return fence(flags & FENCE_FLAGS_KNOWN, payload);
}
