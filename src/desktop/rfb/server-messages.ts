import type { ByteReader } from './byte-reader.ts';
import { ENCODING } from './client-messages.ts';
import { CLIPBOARD, isAboutText } from './clipboard-messages.ts';
import { DesktopUnreachable } from './desktop-errors.ts';
import { PIXEL_BYTES, type Rectangle, type ScreenSize } from './frame.ts';

/** The longest text of the desktop's clipboard, in bytes. It is skipped. */
const CUT_TEXT_BYTES_MAX = 16 * 1_048_576;
const CURSOR_SIDE_PIXELS_MAX = 512;
const FENCE_BYTES_MAX = 64;

/** Receives the messages of the server. */
export interface ServerListener {
  readonly size: ScreenSize;
  /** Starts an update. Returns false if it was not requested. */
  beginUpdate(): boolean;
  /** Reads the pixels of a rectangle, or skips them. */
  readPixels(rectangle: Rectangle): Promise<void>;
  /** Ends an update. Returns false if it contained nothing of the requested frame. */
  endUpdate(): boolean;
  resize(size: ScreenSize): void;
  movePointer(x: number, y: number): void;
  receiveFence(flags: number, payload: Buffer): void;
  receiveClipboard(action: 'caps' | 'request'): void;
}

/**
 * Reads one message and returns the number of its bytes that were not requested. Throws `DesktopUnreachable` for a violation of the
 * protocol.
 */
export async function readMessage(reader: ByteReader, listener: ServerListener): Promise<number> {
  const [type] = await reader.read(1);
  switch (type) {
    case 0:
      return readUpdate(reader, listener);
    case 1: {
      const bytes = 6 * (await reader.read(5)).readUInt16BE(3);
      await reader.skip(bytes);
      return bytes;
    }
    case 2:
      return 1;
    case 3:
      return readCutText(reader, listener);
    case 248:
      return readFence(reader, listener);
    default:
      throw new DesktopUnreachable(`it sent a message of the unknown type ${type}`);
  }
}

async function readUpdate(reader: ByteReader, listener: ServerListener): Promise<number> {
  const head = await reader.read(3);
  const count = head.readUInt16BE(1);
  const isAsked = listener.beginUpdate();
  // The rectangles of an update do not overlap, so the server may send at most this for one request.
  const budget = { pixels: listener.size.width * listener.size.height };
  let bytes = head.length;
  let isResized = false;
  for (let index = 0; index < count; index += 1) {
    if (isResized) throw new DesktopUnreachable('a rectangle came after the new size of the screen');
    const place = await reader.read(12);
    const [x, y, width, height] = [0, 2, 4, 6].map((at) => place.readUInt16BE(at)) as [number, number, number, number];
    const encoding = place.readInt32BE(8);
    if (encoding === ENCODING.desktopSize) {
      listener.resize({ width, height });
      isResized = true;
    } else bytes += await readRectangle(reader, listener, { x, y, width, height, encoding }, budget);
    bytes += place.length;
  }
  const isOfUse = listener.endUpdate();
  return isAsked && isOfUse ? 0 : bytes;
}

/** Returns the number of bytes after the rectangle's head. */
async function readRectangle(
  reader: ByteReader,
  listener: ServerListener,
  { encoding, ...rectangle }: Rectangle & { encoding: number },
  budget: { pixels: number },
): Promise<number> {
  const { x, y, width, height } = rectangle;
  if (encoding === ENCODING.cursorPosition) {
    listener.movePointer(x, y);
    return 0;
  }
  if (encoding === ENCODING.cursor) {
    if (width > CURSOR_SIDE_PIXELS_MAX || height > CURSOR_SIDE_PIXELS_MAX) throw new DesktopUnreachable('its pointer is too large');
    const bytes = width * height * PIXEL_BYTES + Math.floor((width + 7) / 8) * height;
    await reader.skip(bytes);
    return bytes;
  }
  if (encoding !== ENCODING.raw) throw new DesktopUnreachable(`it sent pixels in the encoding ${encoding}, which was not announced`);
  if (x + width > listener.size.width || y + height > listener.size.height) {
    throw new DesktopUnreachable('a rectangle is outside of its screen');
  }
  budget.pixels -= width * height;
  if (budget.pixels < 0) throw new DesktopUnreachable('an update has more pixels than its screen');
  await listener.readPixels(rectangle);
  return width * height * PIXEL_BYTES;
}

/** A negative length marks an extended message. The text of the desktop's clipboard is skipped. */
async function readCutText(reader: ByteReader, listener: ServerListener): Promise<number> {
  const length = (await reader.read(7)).readInt32BE(3);
  const bytes = Math.abs(length);
  if (bytes > CUT_TEXT_BYTES_MAX) throw new DesktopUnreachable(`it announced a text of ${bytes} bytes`);
  if (length >= 0) {
    await reader.skip(bytes);
    return bytes;
  }
  if (bytes < 4) throw new DesktopUnreachable('a message about the clipboard is too short');
  const flags = (await reader.read(4)).readUInt32BE();
  await reader.skip(bytes - 4);
  if (isAboutText(flags)) {
    if ((flags & CLIPBOARD.caps) !== 0) listener.receiveClipboard('caps');
    else if ((flags & CLIPBOARD.request) !== 0) listener.receiveClipboard('request');
  }
  return bytes;
}

async function readFence(reader: ByteReader, listener: ServerListener): Promise<number> {
  const head = await reader.read(8);
  const [flags, length] = [head.readUInt32BE(3), head[7] ?? 0];
  if (length > FENCE_BYTES_MAX) throw new DesktopUnreachable(`a fence has ${length} bytes`);
  listener.receiveFence(flags, await reader.read(length));
  return length;
}
