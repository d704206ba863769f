import { execFile } from 'node:child_process';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

const root = resolve(import.meta.dirname, '../..');

/** The timeout of a test for the image: on a clean machine another test may just be building it. */
export const BUILDER_IMAGE_MS = 20 * 60_000;

let path: Promise<string> | undefined;

/** Returns the path of a tar with the image of the builders. */
export function builderImage(): Promise<string> {
  path ??= promisify(execFile)(process.execPath, [join(root, 'scripts/builder-image.mjs')], { timeout: BUILDER_IMAGE_MS }).then(
    ({ stdout }) => stdout.trim(),
  );
  return path;
}
