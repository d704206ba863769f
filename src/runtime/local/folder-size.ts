import { execFile } from 'node:child_process';
import type { VolumeSize } from '../files.ts';

const OUTPUT_BYTES = 16 * 1024 * 1024;

/**
 * Returns the disk space of the folder in bytes: `Infinity` if it has paths that are too long to be measured. Returns null if it does not
 * exist or is not measured within `withinMs`.
 */
export function folderSize(folder: string, withinMs: number): Promise<number | null> {
  return measured(['-skx', folder], withinMs);
}

/**
 * Returns the number of files, folders and links in the folder; null if it does not exist, is not counted within `withinMs`, or this
 * machine's `du` can't count.
 */
export function filesIn(folder: string, withinMs: number): Promise<number | null> {
  return summed(['--inodes', '-sx', folder], withinMs).then((sum) => (sum === Infinity ? null : sum));
}

/** Returns the disk space and the number of files of an agent's volume; null if it does not exist or is not measured within `withinMs`. */
export async function volumeSize(folder: string, withinMs: number): Promise<VolumeSize | null> {
  const end = performance.now() + withinMs;
  const bytes = await folderSize(folder, withinMs);
  const files = await filesIn(folder, end - performance.now());
  return bytes === null ? null : { bytes, files: files ?? 0 };
}

/** Same as `folderSize` for several folders together; missing ones take no space. A file with names in several folders counts once. */
export function sizeTogether(folders: readonly string[], withinMs: number): Promise<number | null> {
  return measured(['-skxc', ...folders], withinMs);
}

async function measured(words: string[], withinMs: number): Promise<number | null> {
  const kibibytes = await summed(words, withinMs);
  return kibibytes === null ? null : kibibytes * 1024;
}

/** Returns the sum that `du` prints; `Infinity` if there are paths that are too long for it. */
function summed(words: string[], withinMs: number): Promise<number | null> {
  if (withinMs <= 0) return Promise.resolve(null);
  const options = { timeout: Math.ceil(withinMs), killSignal: 'SIGKILL' as const, maxBuffer: OUTPUT_BYTES };
  return new Promise((resolve) => {
    // A file that disappears meanwhile is an error for `du`, after which it continues. Its last line is the sum.
    execFile('du', words, options, (error, stdout, stderr) => {
      if (error?.killed === true) return resolve(null);
      const [, sum] = /(?:^|\n)(\d+)\t[^\n]*\n$/.exec(stdout) ?? [];
      resolve(/File name too long/.test(stderr) ? Infinity : sum === undefined ? null : Number(sum));
    });
  });
}
