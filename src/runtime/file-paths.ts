import { FileRefused } from './files.ts';

const PATH_BYTES_MAX = 4_095;
const NAME_BYTES_MAX = 255;

/** The prefix of the names of unfinished files. Each lies beside the file that is being written, and listings leave it out. */
export const UNFINISHED_PREFIX = '.mooring-unfinished-';
/** The age from which an unfinished file is a leftover of a crash, in ms. No transfer takes as long. */
export const UNFINISHED_MS_MAX = 3_600_000;

/** A path from a caller or a symbolic link. The folder that `..` leads to depends on the links before it. */
export interface FilePath {
  absolute: boolean;
  /** The names, and `..`, without `.` and empty names. */
  parts: readonly string[];
  /** The value is true if the path can only name a folder: it ends in `/`, `.` or `..`. */
  folder: boolean;
}

/** Parses a path from a caller. Throws `FileRefused` if it is empty, has a NUL or a lone surrogate, or is longer than any path may be. */
export function filePath(path: string): FilePath {
  if (path === '' || path.includes('\0') || !path.isWellFormed() || Buffer.byteLength(path) > PATH_BYTES_MAX)
    throw new FileRefused('invalid_path');
  const parts = path.split('/').filter((part) => part !== '' && part !== '.');
  if (parts.some((part) => Buffer.byteLength(part) > NAME_BYTES_MAX)) throw new FileRefused('invalid_path');
  return { absolute: path.startsWith('/'), parts, folder: /(^|\/)\.{0,2}$/.test(path) };
}

/** Returns the path as text, in its shortest form. */
export function pathText({ absolute, parts }: FilePath): string {
  return `${absolute ? '/' : ''}${parts.join('/')}` || '.';
}

/** Returns whether the second path is the first one or is below it. Both consist only of names. */
export function contains(folder: readonly string[], path: readonly string[]): boolean {
  return folder.every((part, index) => path[index] === part);
}
