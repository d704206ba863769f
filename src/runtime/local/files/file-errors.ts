import { RuntimeUnavailable } from '../../runtime.errors.ts';
import { FileRefused, type FileRefusal } from '../../files.ts';

const refusals: Readonly<Record<string, FileRefusal>> = {
  ENOENT: 'not_found',
  ELOOP: 'not_found',
  ENOTDIR: 'not_a_directory',
  EISDIR: 'is_a_directory',
  EEXIST: 'exists',
  ENOTEMPTY: 'exists',
  EACCES: 'not_permitted',
  EPERM: 'not_permitted',
  EROFS: 'not_permitted',
  ENXIO: 'not_a_file',
  ENAMETOOLONG: 'invalid_path',
  EINVAL: 'invalid_path',
  EXDEV: 'invalid_path',
  ENOSPC: 'volume_full',
  EDQUOT: 'volume_full',
};

/** Runs the callback, and converts the errors of the file system. */
export async function refusing<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? '';
    const reason = refusals[code];
    if (reason !== undefined) throw new FileRefused(reason, { cause: error });
    throw ['EMFILE', 'ENFILE', 'ENOMEM'].includes(code) ? new RuntimeUnavailable(error) : error;
  }
}

/** Returns the result, or null if the work fails with one of the codes. */
export async function unless<T>(codes: string[], work: Promise<T>): Promise<T | null> {
  try {
    return await work;
  } catch (error) {
    if (codes.includes((error as NodeJS.ErrnoException).code ?? '')) return null;
    throw error;
  }
}
