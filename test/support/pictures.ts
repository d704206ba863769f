import sharp from 'sharp';

/** A part of a picture, in pixels. */
export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** A picture of a screen, four bytes a pixel. */
export interface Picture {
  pixels: Buffer;
  width: number;
  height: number;
}

export async function decoded(image: Buffer): Promise<Picture> {
  const { data, info } = await sharp(image).ensureAlpha().raw().toBuffer({ resolveWithObject: true });
  return { pixels: data, width: info.width, height: info.height };
}

/** Returns that part of the picture. */
export function partOf({ pixels, width }: Picture, { x, y, width: partWidth, height }: Box): Picture {
  const rows = Array.from({ length: height }, (_, row) =>
    pixels.subarray(((y + row) * width + x) * 4, ((y + row) * width + x + partWidth) * 4),
  );
  return { pixels: Buffer.concat(rows), width: partWidth, height };
}

/** Returns the smallest box around all differences above so many rows at the bottom; null if there are none. */
export function changedBox(before: Picture, after: Picture, ignoredRows = 0): Box | null {
  return boxOf(after, ignoredRows, (at) => before.pixels.readUInt32LE(at) !== after.pixels.readUInt32LE(at));
}

/** Returns the smallest box around the pixels of exactly that colour; null if there are none. */
export function colouredBox(picture: Picture, [red, green, blue]: readonly [number, number, number]): Box | null {
  const { pixels } = picture;
  return boxOf(picture, 0, (at) => pixels[at] === red && pixels[at + 1] === green && pixels[at + 2] === blue);
}

function boxOf({ width, height }: Picture, ignoredRows: number, isIn: (at: number) => boolean): Box | null {
  let [left, top, right, bottom] = [width, height, -1, -1];
  for (let y = 0; y < height - ignoredRows; y += 1)
    for (let x = 0; x < width; x += 1) {
      if (!isIn((y * width + x) * 4)) continue;
      left = Math.min(left, x);
      right = Math.max(right, x);
      top = Math.min(top, y);
      bottom = Math.max(bottom, y);
    }
  return right < 0 ? null : { x: left, y: top, width: right - left + 1, height: bottom - top + 1 };
}
