import { execFile } from 'node:child_process';
import type { VolumeSize } from '../files.ts';

const OUTPUT_BYTES = 16 * 1024 * 1024;

/**
 * Returns the space that the folder takes, in bytes: `Infinity` if it has paths that are too long to be measured. Returns null if it does not
 * exist or is not measured within `withinMs`.
 */
export function folderSize(folder: string, withinMs: number): Promise<number | null> {
  return measured(['-skx', folder], withinMs);
}

/**
 * Returns the number of files, folders and links in the folder; null if it does not exist, is not counted within `withinMs`, or this machine's
 * `du` does not count.
 */
export function filesIn(folder: string, withinMs: number): Promise<number | null> {
  return summed(['--inodes', '-sx', folder], withinMs).then((sum) => (sum === Infinity ? null : sum));
}

/** Returns the space and the number of files of an agent's volume; null if it does not exist or is not measured within `withinMs`. */
export async function volumeSize(folder: string, withinMs: number): Promise<VolumeSize | null> {
  const end = performance.now() + withinMs;
  const bytes = await folderSize(folder, withinMs);
  const files = await filesIn(folder, end - performance.now());
  return bytes === null ? null : { bytes, files: files ?? 0 };
}

/** Does as `folderSize` for several folders, of which those that don't exist take no space. A file that has a name in several of them counts once. */
export function sizeTogether(folders: readonly string[], withinMs: number): Promise<number | null> {
  return measured(['-skxc', ...folders], withinMs);
}

async function measured(words: string[], withinMs: number): Promise<number | null> {
  const kibibytes = await summed(words, withinMs);
  return kibibytes === null ? null : kibibytes * 1024;
}

/** Returns the sum that `du` prints; `Infinity` if there are paths that it can't follow. */
function summed(words: string[], withinMs: number): Promise<number | null> {
  if (withinMs <= 0) return Promise.resolve(null);
  const options = { timeout: Math.ceil(withinMs), killSignal: 'SIGKILL' as const, maxBuffer: OUTPUT_BYTES };
  return new Promise((resolve) => {
    // A file that disappears meanwhile is an error to `du`, after which it goes on. Its last line is the sum.
    execFile('du', words, options, (error, stdout, stderr) => {
      if (error?.killed === true) return resolve(null);
      const [, sum] = /(?:^|\n)(\d+)\t[^\n]*\n$/.exec(stdout) ?? [];
      resolve(/File name too long/.test(stderr) ? Infinity : sum === undefined ? null : Number(sum));
    });
  });
}
