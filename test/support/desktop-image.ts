import { execFile } from 'node:child_process';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

const root = resolve(import.meta.dirname, '../..');

/** The timeout of a test for the image: on a clean machine another test may just be building it. */
export const DESKTOP_IMAGE_MS = 20 * 60_000;

let path: Promise<string> | undefined;

/** Returns the path of a tar with the image of computers, as `MOORING_COMPUTER_IMAGE` takes it. */
export function desktopImage(): Promise<string> {
  path ??= promisify(execFile)(process.execPath, [join(root, 'scripts/desktop-image.mjs')], { timeout: DESKTOP_IMAGE_MS }).then(
    ({ stdout }) => stdout.trim(),
  );
  return path;
}
