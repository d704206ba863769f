import type { ErrorCode } from '../../kernel/errors/problem-error.ts';
import type { FileRefusal } from '../../runtime/files.ts';

/** The refusals of file calls, by the runtime's reason. */
export const REFUSALS: Record<FileRefusal, [code: ErrorCode, detail: string]> = {
  not_found: ['file_not_found', 'There is no such file or directory.'],
  exists: ['file_exists', 'Something stands at the path already.'],
  outside_volume: ['path_outside_volume', 'The path leads out of the volume.'],
  volume_root: ['volume_root_protected', 'The root of the volume can’t be deleted, moved or replaced.'],
  not_a_directory: ['invalid_request', 'The path, or a part of it, is no directory.'],
  is_a_directory: ['invalid_request', 'The path is a directory.'],
  not_a_file: ['invalid_request', 'The path is neither a file nor a directory.'],
  not_permitted: ['invalid_request', 'The path belongs to the system, or may not be changed.'],
  too_large: ['payload_too_large', 'The file is larger than 100 MB.'],
  volume_full: ['volume_full', 'The volume is full.'],
  invalid_path: ['invalid_request', 'The path can’t be one of a file: it is too long, or a name in it is.'],
};
