const SUBMODULES = '.gitmodules';
const LFS_SETTINGS = '.lfsconfig';
/** The most bytes of a file of Git that is read. */
const SETTINGS_BYTES_MAX = 64 * 1024;
/** A pointer of Git LFS is smaller. */
const POINTER_BYTES_MAX = 1_024;
const POINTER = 'version https://git-lfs.github.com/spec/v1';
const NAMED_MAX = 5;
const NAME_CHARACTERS_MAX = 120;

/** A file whose content is in Git LFS. */
export interface LfsPointer {
  /** The path in the repository. */
  path: string;
  /** The content's hash (SHA-256) and size in bytes; null if the file does not say them as it should. */
  object: { oid: string; size: number } | null;
}

/** Collects what the files of a commit only name: submodules, and the contents of files in Git LFS. */
export class NamedContents {
  readonly pointers: LfsPointer[] = [];
  /** The folders of the submodules, as `.gitmodules` names them. */
  submodules: string[] = [];
  /** True if the commit has settings of Git LFS. */
  hasLfsSettings = false;

  /** Returns whether a file of that name and size has to be read whole. */
  reads(path: string, size: number): boolean {
    return size < POINTER_BYTES_MAX || (path === SUBMODULES && size <= SETTINGS_BYTES_MAX);
  }

  /** Takes a file's content, and returns it. */
  seen(path: string, content: Buffer): Buffer {
    if (content.length < POINTER_BYTES_MAX && content.toString('latin1', 0, POINTER.length) === POINTER)
      this.pointers.push({ path, object: objectOf(content.toString('latin1')) });
    if (path === LFS_SETTINGS) this.hasLfsSettings = true;
    if (path === SUBMODULES)
      this.submodules = [...content.toString('utf8').matchAll(/^[ \t]*path[ \t]*=[ \t]*(\S.*)$/gm)].map(([, name = '']) => name.trim());
    return content;
  }
}

function objectOf(pointer: string): LfsPointer['object'] {
  const oid = /^oid sha256:([0-9a-f]{64})$/m.exec(pointer)?.[1];
  const size = /^size (\d{1,15})$/m.exec(pointer)?.[1];
  return oid === undefined || size === undefined ? null : { oid, size: Number(size) };
}

/** Returns the sentence on submodules that are not fetched; none if all are. */
export function submodulesNote(paths: readonly string[]): string[] {
  return paths.length === 0 ? [] : [`Submodules are not fetched, so that their folders are empty: ${named(paths)}`];
}

/** Returns the sentence on files whose contents are not fetched, and why if that is known; none if all are. */
export function lfsNote(paths: readonly string[], reason: string | null): string[] {
  if (paths.length === 0) return [];
  return [`Files in Git LFS are not fetched, so that they hold only pointers: ${named(paths)}${reason === null ? '' : `. ${reason}`}`];
}

function named(names: readonly string[]): string {
  const shown = names.slice(0, NAMED_MAX).map(printable);
  return shown.join(', ') + (names.length > shown.length ? ` and ${names.length - shown.length} more` : '');
}

/** Returns a path as it may be shown in a log. */
export function printable(path: string): string {
  return JSON.stringify(path.slice(0, NAME_CHARACTERS_MAX));
}
