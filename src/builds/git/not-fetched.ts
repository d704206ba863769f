const SUBMODULES = '.gitmodules';
const SUBMODULES_BYTES_MAX = 64 * 1024;
/** A pointer of Git LFS is smaller. */
const POINTER_BYTES_MAX = 1_024;
const POINTER = 'version https://git-lfs.github.com/spec/v1';
const NAMED_MAX = 5;
const NAME_CHARACTERS_MAX = 120;

/** Collects what the files of a commit only name, and what is not fetched therefore: submodules, and the contents of files in Git LFS. */
export class NotFetched {
  private readonly pointers: string[] = [];
  private pointerCount = 0;
  private submodules: string[] = [];

  /** Returns whether a file of that name and size has to be read whole. */
  reads(path: string, size: number): boolean {
    return size < POINTER_BYTES_MAX || (path === SUBMODULES && size <= SUBMODULES_BYTES_MAX);
  }

  /** Takes a file's content, and returns it. */
  seen(path: string, content: Buffer): Buffer {
    if (content.length < POINTER_BYTES_MAX && content.toString('latin1', 0, POINTER.length) === POINTER) {
      this.pointerCount += 1;
      if (this.pointers.length < NAMED_MAX) this.pointers.push(path);
    }
    if (path === SUBMODULES)
      this.submodules = [...content.toString('utf8').matchAll(/^[ \t]*path[ \t]*=[ \t]*(\S.*)$/gm)].map(([, name = '']) => name.trim());
    return content;
  }

  /** The sentences that say it, for a build log. */
  get notes(): string[] {
    const notes: string[] = [];
    if (this.submodules.length > 0)
      notes.push(`Submodules are not fetched, so that their folders are empty: ${named(this.submodules, this.submodules.length)}`);
    if (this.pointerCount > 0)
      notes.push(`Files in Git LFS are not fetched, so that they hold only pointers: ${named(this.pointers, this.pointerCount)}`);
    return notes;
  }
}

function named(names: string[], count: number): string {
  const shown = names.slice(0, NAMED_MAX).map((name) => JSON.stringify(name.slice(0, NAME_CHARACTERS_MAX)));
  return shown.join(', ') + (count > shown.length ? ` and ${count - shown.length} more` : '');
}
