import type { ByteReader } from './byte-reader.ts';
import { DesktopUnreachable } from './desktop-errors.ts';

/** The largest screen: the number of its pixels, and the length of a side. */
export const SCREEN_PIXELS_MAX = 2_560 * 1_600;
const SIDE_PIXELS_MAX = 8_191;
export const PIXEL_BYTES = 4;
/** A pixel with only the fourth byte set, as a number in this machine's byte order. */
const [OPAQUE = 0] = new Uint32Array(Uint8Array.of(0, 0, 0, 255).buffer);

export interface ScreenSize {
  width: number;
  height: number;
}

/** The screen at one moment. It is immutable. */
export interface Frame extends ScreenSize {
  /** Red, green, blue and 255, from the top left, row by row. */
  pixels: Buffer;
  /** Frames with different pixels have different numbers. */
  version: number;
}

export interface Rectangle extends ScreenSize {
  x: number;
  y: number;
}

/** Throws `DesktopUnreachable` for a screen that is too large. */
export function checkSize({ width, height }: ScreenSize): void {
  const isSize = width > 0 && height > 0 && width <= SIDE_PIXELS_MAX && height <= SIDE_PIXELS_MAX;
  if (!isSize || width * height > SCREEN_PIXELS_MAX) throw new DesktopUnreachable(`its screen has ${width}x${height} pixels`);
}

/** Returns the memory that assembling a frame of this size needs, in bytes. */
export function frameBytes({ width, height }: ScreenSize): number {
  return width * height * (PIXEL_BYTES + 1);
}

/** Assembles a frame from the rectangles of updates, until they cover the screen. Rectangles of different updates may overlap. */
export class FrameAssembly {
  private readonly pixels: Buffer;
  /** One byte per pixel, which is 1 once the pixel was received. */
  private readonly covered: Buffer;
  /** The number of pixels that were not received yet. */
  missing: number;

  constructor(readonly size: ScreenSize) {
    this.missing = size.width * size.height;
    this.covered = Buffer.alloc(this.missing);
    this.pixels = Buffer.allocUnsafeSlow(this.missing * PIXEL_BYTES);
  }

  get isComplete(): boolean {
    return this.missing <= 0;
  }

  /** Returns the pixels. The server sets their fourth byte to 0, which image encoders treat as transparent. */
  finish(): Buffer {
    const { buffer, byteOffset, length } = this.pixels;
    const values = new Uint32Array(buffer, byteOffset, length / PIXEL_BYTES);
    for (let index = 0; index < values.length; index += 1) values[index] = (values[index] as number) | OPAQUE;
    return this.pixels;
  }

  /** Reads the pixels of a rectangle, which must be within the screen. */
  async read(reader: ByteReader, { x, y, width, height }: Rectangle): Promise<void> {
    const rowBytes = this.size.width * PIXEL_BYTES;
    if (width === this.size.width) await reader.copy(this.pixels, y * rowBytes, height * rowBytes);
    else {
      for (let row = y; row < y + height; row += 1) await reader.copy(this.pixels, row * rowBytes + x * PIXEL_BYTES, width * PIXEL_BYTES);
    }
    for (let row = y; row < y + height; row += 1) this.cover(row * this.size.width + x, width);
  }

  private cover(from: number, count: number): void {
    const part = this.covered.subarray(from, from + count);
    if (part.includes(1)) for (const is of part) this.missing -= 1 - is;
    else this.missing -= count;
    part.fill(1);
  }
}
