import { ApiProperty } from '@nestjs/swagger';
import { IsBoolean, IsOptional, IsString } from 'class-validator';

import { checked } from '../agents/index.ts';
import type { FileList } from '../../runtime/files.ts';
import { isReserved, RESERVED_NAME } from './upload-names.ts';

const PATH_BYTES_MAX = 4_095;

/** Returns what is wrong with a path, or null. */
export function pathProblem(path: unknown): string | null {
  if (typeof path !== 'string' || path === '') return 'must be a path';
  if (path.includes('\0') || !path.isWellFormed()) return 'must not contain a NUL or half of a surrogate pair';
  if (path.split('/').some(isReserved)) return RESERVED_NAME;
  return Buffer.byteLength(path) > PATH_BYTES_MAX ? `must be at most ${PATH_BYTES_MAX} bytes of UTF-8` : null;
}

export class ListFilesDto {
  /** The directory; a relative path begins at the volume's root, which is the default. */
  @IsOptional()
  @checked('path', pathProblem)
  path?: string;
}

export class FilePathDto {
  /** The path; a relative one begins at the volume's root. */
  @checked('path', pathProblem)
  path: string;
}

export class WriteFileDto {
  /** The file; a relative path begins at the volume's root. Missing directories are created. */
  @checked('path', pathProblem)
  path: string;

  /** The whole new content, as text. */
  @IsString()
  content: string;
}

export class MakeDirectoryDto {
  /** The directory; a relative path begins at the volume's root. */
  @checked('path', pathProblem)
  path: string;

  /** The value true also creates missing parent directories, and accepts a directory that exists. It is true by default. */
  @IsOptional()
  @IsBoolean()
  parents?: boolean;
}

export class MoveFileDto {
  @checked('path', pathProblem)
  from: string;

  /** The new path, at which nothing may stand. */
  @checked('path', pathProblem)
  to: string;
}

export class FileEntryDto {
  name: string;
  isDir: boolean;
  size: number;
  /** The time of the last change, in Unix seconds. */
  mtime: number;
}

export class FileListDto {
  path: string;
  /** The mount point of the agent's volume. */
  root: string;
  entries: FileEntryDto[];
  /** It is true if the directory has more entries than are listed. */
  truncated: boolean;
}

export function toFileList({ path, root, entries, truncated }: FileList): FileListDto {
  const shown = entries.map(({ name, kind, size, mtime }) => ({ name, isDir: kind === 'directory', size, mtime }));
  return { path, root, entries: shown, truncated };
}

export class WrittenFileDto {
  path: string;
  size: number;
  /** It is true if there was no file at the path before. */
  created: boolean;
}

export class MadeDirectoryDto {
  path: string;
  created: boolean;
}

export class MovedFileDto {
  from: string;
  to: string;
}

export class UploadedFileDto {
  ok: boolean;
  path: string;
  name: string;
  size: number;
}

/** The form of an upload, for the API document; the form itself is read as it comes. */
export class UploadDto {
  @ApiProperty({ type: 'string', format: 'binary' })
  file: unknown;

  /** The directory of the volume, which is created if it is missing; without it the file is an attachment and is stored in the inbox. */
  dest_dir?: string;

  /** The text that goes with an attachment. */
  message?: string;
}
