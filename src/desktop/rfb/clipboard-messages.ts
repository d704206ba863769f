import { deflateSync } from 'node:zlib';

const FORMAT_TEXT = 1;
export const CLIPBOARD = { caps: 1 << 24, request: 1 << 25, peek: 1 << 26, notify: 1 << 27, provide: 1 << 28 } as const;

/** Returns whether the flags name text among their formats. */
export function isAboutText(flags: number): boolean {
  return (flags & FORMAT_TEXT) !== 0;
}

/** Announces what the client supports: it offers text and sends it on request. It accepts no text that it did not request. */
export function clipboardCaps(): Buffer {
  const unaskedBytes = Buffer.alloc(4);
  return extended(CLIPBOARD.caps | CLIPBOARD.request | CLIPBOARD.notify | CLIPBOARD.provide | FORMAT_TEXT, unaskedBytes);
}

/** Announces that the client has a new text. */
export function clipboardNotify(): Buffer {
  return extended(CLIPBOARD.notify | FORMAT_TEXT, Buffer.alloc(0));
}

/** Sends the text. On the wire, its lines end in CR LF, and it ends with a NUL. */
export function clipboardProvide(text: string): Buffer {
  const bytes = Buffer.from(`${text.replaceAll(/\r?\n/g, '\r\n')}\0`, 'utf8');
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return extended(CLIPBOARD.provide | FORMAT_TEXT, deflateSync(Buffer.concat([length, bytes])));
}

/** Sends a text to a server with only the clipboard of RFB 3.8, which is Latin-1. */
export function clientCutText(text: string): Buffer {
  return cutText(Buffer.from(text.replaceAll('\r\n', '\n'), 'latin1'), 1);
}

function extended(flags: number, data: Buffer): Buffer {
  const head = Buffer.alloc(4);
  head.writeUInt32BE(flags >>> 0);
  return cutText(Buffer.concat([head, data]), -1);
}

/** The length of an extended message is negative. */
function cutText(data: Buffer, sign: 1 | -1): Buffer {
  const head = Buffer.alloc(8);
  head[0] = 6;
  head.writeInt32BE(sign * data.length, 4);
  return Buffer.concat([head, data]);
}
