import { ApiProperty, IntersectionType } from '@nestjs/swagger';

import { FilePathDto, ListFilesDto } from '../../files/index.ts';
import { BooleanQuery, WakeQueryDto } from './computer-call.ts';
import type { StoredFile } from './computer-files.service.ts';

export class ComputerFileQueryDto extends IntersectionType(FilePathDto, WakeQueryDto) {}

export class StoreComputerFileQueryDto extends ComputerFileQueryDto {
  /** The value true makes the file executable for everybody. */
  @BooleanQuery()
  executable?: boolean;
}

export class ComputerFileListQueryDto extends IntersectionType(ListFilesDto, WakeQueryDto) {}

/** The form of an upload, for the API document; the form itself is read as it comes. */
export class ComputerFileFormDto {
  @ApiProperty({ type: 'string', format: 'binary' })
  file: unknown;
}

export class StoredFileDto {
  ok: boolean;
  path: string;
  name: string;
  size: number;
}

export function toStoredFile({ path, name, size }: StoredFile): StoredFileDto {
  return { ok: true, path, name, size };
}
