import sharp, { type Sharp } from 'sharp';

/** The compression level of PNG. Above it, a picture of a desktop is hardly smaller and takes longer. */
const PNG_LEVEL = 4;
/** The effort of WebP. With its default, encoding takes three times as long. */
const WEBP_EFFORT = 1;
const CHANNELS = 4;

// One picture uses one thread, since the pictures of many desktops are encoded concurrently. Nothing is encoded twice, so a cache is
// useless.
sharp.concurrency(1);
sharp.cache(false);

export interface Pixels {
  width: number;
  height: number;
  /** Red, green, blue and 255 for each pixel. */
  pixels: Buffer;
}

export interface ImageOptions {
  format: 'png' | 'jpeg' | 'webp';
  /** From 1 to 100, for JPEG and WebP. */
  quality: number;
  /** The requested region of the frame; by default all of it. */
  region?: { x: number; y: number; width: number; height: number };
  /** The size of the picture; by default that of the region. */
  size?: { width: number; height: number };
}

export interface EncodedImage {
  format: ImageOptions['format'];
  width: number;
  height: number;
  data: Buffer;
}

/** The requested region is outside of the screen, which may have become smaller meanwhile. */
export class OutsideOfScreen extends Error {
  readonly code = 'coordinate_out_of_bounds';

  constructor({ width, height }: { width: number; height: number }) {
    super(`It is outside of the display of ${width}x${height} pixels.`);
    this.name = 'OutsideOfScreen';
  }
}

/** Encodes a picture of the frame on another thread. Throws `OutsideOfScreen`. */
export async function encodeImage(frame: Pixels, { format, quality, region, size }: ImageOptions): Promise<EncodedImage> {
  const { width, height, pixels } = frame;
  const wanted = region ?? { x: 0, y: 0, width, height };
  if (wanted.x + wanted.width > width || wanted.y + wanted.height > height) throw new OutsideOfScreen(frame);
  const target = size ?? wanted;
  let image = sharp(pixels, { raw: { width, height, channels: CHANNELS } }).removeAlpha();
  if (region !== undefined) image = image.extract({ left: region.x, top: region.y, width: region.width, height: region.height });
  if (target.width !== wanted.width || target.height !== wanted.height) {
    image = image.resize(target.width, target.height, { fit: 'fill' });
  }
  const data = await inFormat(image, format, quality).toBuffer();
  return { format, width: target.width, height: target.height, data };
}

/** Returns the scaled size, with at least one pixel per side. */
export function scaled({ width, height }: { width: number; height: number }, scale: number): { width: number; height: number } {
  const side = (pixels: number) => Math.max(1, Math.round(pixels * scale));
  return { width: side(width), height: side(height) };
}

function inFormat(image: Sharp, format: ImageOptions['format'], quality: number): Sharp {
  switch (format) {
    case 'png':
      return image.png({ compressionLevel: PNG_LEVEL });
    case 'jpeg':
      return image.jpeg({ quality });
    case 'webp':
      return image.webp({ quality, effort: WEBP_EFFORT });
  }
}
