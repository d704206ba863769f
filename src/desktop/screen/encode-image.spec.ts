import sharp from 'sharp';

import { encodeImage, OutsideOfScreen, scaled, type ImageOptions } from './encode-image.ts';

/** A frame whose left half is red and whose right half is blue. */
const frame = { width: 64, height: 32, pixels: Buffer.alloc(64 * 32 * 4) };
for (let index = 0; index < 64 * 32; index += 1) frame.pixels.set(index % 64 < 32 ? [255, 0, 0, 255] : [0, 0, 255, 255], index * 4);

/** Returns the size, the format and the colour of the first and the last pixel, each channel 0 or 255. */
async function seen(options: Partial<ImageOptions>) {
  const image = await encodeImage(frame, { format: 'png', quality: 90, ...options });
  const { data, info } = await sharp(image.data).raw().toBuffer({ resolveWithObject: true });
  const { format } = await sharp(image.data).metadata();
  const colour = (bytes: Buffer) => [...bytes].map((byte) => (byte > 127 ? 255 : 0));
  expect([info.width, info.height, info.channels]).toEqual([image.width, image.height, 3]);
  return { format, size: [info.width, info.height], first: colour(data.subarray(0, 3)), last: colour(data.subarray(-3)) };
}

const [red, blue] = [
  [255, 0, 0],
  [0, 0, 255],
];

describe('a picture of a screen', () => {
  it.each(['png', 'jpeg', 'webp'] as const)('is of the format %s, and shows it', async (format) => {
    expect(await seen({ format })).toEqual({ format, size: [64, 32], first: red, last: blue });
  });

  it('is of a part of it', async () => {
    expect(await seen({ region: { x: 40, y: 8, width: 20, height: 10 } })).toEqual({
      format: 'png',
      size: [20, 10],
      first: blue,
      last: blue,
    });
  });

  it('is smaller or larger', async () => {
    expect(await seen({ size: { width: 16, height: 8 } })).toMatchObject({ size: [16, 8], first: red, last: blue });
    expect(await seen({ size: { width: 128, height: 100 } })).toMatchObject({ size: [128, 100], first: red, last: blue });
    const region = { x: 32, y: 0, width: 32, height: 32 };
    expect(await seen({ region, size: { width: 1, height: 1 } })).toMatchObject({ size: [1, 1], first: blue });
  });

  it('has each pixel exact as a PNG', async () => {
    const { data } = await encodeImage(frame, { format: 'png', quality: 1 });
    const rgba = await sharp(data).ensureAlpha().raw().toBuffer();
    expect(rgba.equals(frame.pixels)).toBe(true);
  });

  it('has fewer bytes with less quality', async () => {
    const noise = { ...frame, pixels: Buffer.from(frame.pixels.map((_, index) => (index * 7919) % 251)) };
    const [fine, coarse] = await Promise.all([90, 10].map((quality) => encodeImage(noise, { format: 'jpeg', quality })));
    expect(coarse?.data.length).toBeLessThan(fine?.data.length ?? 0);
  });

  it('is refused for a part that is not on it', async () => {
    const region = { x: 60, y: 0, width: 5, height: 1 };
    await expect(encodeImage(frame, { format: 'png', quality: 80, region })).rejects.toThrow(OutsideOfScreen);
  });
});

it('a scaled size has at least one pixel a side', () => {
  expect(scaled({ width: 1280, height: 800 }, 0.5)).toEqual({ width: 640, height: 400 });
  expect(scaled({ width: 3, height: 2 }, 0.1)).toEqual({ width: 1, height: 1 });
});
