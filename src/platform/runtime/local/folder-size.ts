import { execFile } from 'node:child_process';

const OUTPUT_BYTES = 16 * 1024 * 1024;

/**
 * Returns the space that the folder takes, in bytes: `Infinity` if it has paths that are too long to be measured. Returns null if it does not
 * exist or is not measured within `withinMs`.
 */
export function folderSize(folder: string, withinMs: number): Promise<number | null> {
  if (withinMs <= 0) return Promise.resolve(null);
  const options = { timeout: Math.ceil(withinMs), killSignal: 'SIGKILL' as const, maxBuffer: OUTPUT_BYTES };
  return new Promise((resolve) => {
    // A file that disappears meanwhile is an error to `du`, after which it goes on. Its last line is the sum.
    execFile('du', ['-skx', folder], options, (_, stdout, stderr) => {
      const [, kibibytes] = /(?:^|\n)(\d+)\t[^\n]*\n$/.exec(stdout) ?? [];
      resolve(/File name too long/.test(stderr) ? Infinity : kibibytes === undefined ? null : Number(kibibytes) * 1024);
    });
  });
}
