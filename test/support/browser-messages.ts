/** Returns a message with which a browser sends a text to the clipboard; an extended one has a negative length. */
export function clipboardText(text: Buffer, isExtended = false): Buffer {
  const head = Buffer.alloc(8);
  head[0] = 6;
  head.writeInt32BE(isExtended ? -text.length : text.length, 4);
  return Buffer.concat([head, text]);
}
