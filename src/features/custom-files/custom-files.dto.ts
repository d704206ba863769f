import { ApiProperty } from '@nestjs/swagger';
import { IsString } from 'class-validator';

import { checked, Given } from '../agents/index.ts';
import { invalidField } from '../../kernel/errors/problem-error.ts';
import { DEFAULT_TARGET_DIR, type FileLocation } from './file-locations.rules.ts';
import { CUSTOM_FILES_MAX, type CustomFile } from './custom-files.decider.ts';
import type { CustomFileInput } from './custom-files.service.ts';

export class CustomFileInputDto {
  /** The file's name, or its path within target_dir. */
  path: string;
  /** The text of the file, at most 1 MB. */
  content: string;
  /** The value true (the default) sets the file's executable bits. */
  executable?: boolean;
  /** The value true (the default) runs the file at each deployment, if its name ends in .sh. */
  run_on_deploy?: boolean;
  /** An absolute directory in the container, /service/scripts by default. */
  target_dir?: string;
}

export class StoreCustomFilesDto {
  /** The files, 1 to 100. */
  @ApiProperty({ type: [CustomFileInputDto] })
  @checked('customFiles', (value) =>
    Array.isArray(value) && value.length > 0 && value.length <= CUSTOM_FILES_MAX
      ? null
      : `must be an array of 1 to ${CUSTOM_FILES_MAX} files`,
  )
  files: CustomFileInputDto[];
}

const members = ['path', 'content', 'executable', 'run_on_deploy', 'target_dir'];

/** Returns the files of a request, whose array was checked. Throws `invalid_request` with the name of the first bad member. */
export function toCustomFiles(files: unknown[]): CustomFileInput[] {
  return files.map((file, index) => {
    const named = (member: string) => `files[${index}].${member}`;
    if (typeof file !== 'object' || file === null || Array.isArray(file)) throw invalidField(`files[${index}]`, 'must be an object');
    const unknown = Object.keys(file).find((member) => !members.includes(member));
    if (unknown !== undefined) throw invalidField(named(unknown.slice(0, 100)), 'is not a known field');
    const {
      path,
      content,
      executable = true,
      run_on_deploy: runOnDeploy = true,
      target_dir = DEFAULT_TARGET_DIR,
    } = file as Record<string, unknown>;
    if (typeof path !== 'string') throw invalidField(named('path'), 'must be a string');
    if (typeof content !== 'string') throw invalidField(named('content'), 'must be a string');
    if (typeof executable !== 'boolean') throw invalidField(named('executable'), 'must be true or false');
    if (typeof runOnDeploy !== 'boolean') throw invalidField(named('run_on_deploy'), 'must be true or false');
    if (typeof target_dir !== 'string') throw invalidField(named('target_dir'), 'must be a string');
    return { path, content, executable, runOnDeploy, targetDir: target_dir };
  });
}

export class StoredCustomFilesDto {
  agent_id: string;
  /** The number of files that the request has stored. */
  files_count: number;
  message: string;
}

export class CustomFilePlaceDto {
  @IsString()
  path: string;

  /** The directory of the file, /service/scripts by default. */
  @Given()
  @IsString()
  target_dir?: string;
}

/** Returns the place of the file that a query names. */
export function toLocation({ path, target_dir: targetDir = DEFAULT_TARGET_DIR }: CustomFilePlaceDto): FileLocation {
  return { path, targetDir };
}

export class CustomFileDto {
  path: string;
  target_dir: string;
  /** The size of the content in bytes. */
  size: number;
  executable: boolean;
  run_on_deploy: boolean;
  updated_at: string;
}

export function toCustomFileDto({ path, targetDir, size, executable, runOnDeploy, storedAt }: CustomFile): CustomFileDto {
  return { path, target_dir: targetDir, size, executable, run_on_deploy: runOnDeploy, updated_at: storedAt };
}
