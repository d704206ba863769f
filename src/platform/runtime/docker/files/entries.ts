import { FILE_ENTRIES_MAX, type FileEntry, type FileKind } from '../../files.ts';
import { UNFINISHED_PREFIX } from '../../file-paths.ts';

/** The bytes that a list of `FILE_ENTRIES_MAX` entries may take, with names of 255 bytes. */
export const LIST_BYTES_MAX = 4 * 1024 * 1024;

const kinds: Readonly<Record<number, FileKind>> = { 0o10: 'file', 0o04: 'directory', 0o12: 'link' };

/**
 * Parses lines of the mode (hexadecimal), the size, the time and `./name`, of which the last may be cut. Names may have line ends, but no
 * slash, so only a slash tells where one begins. Returns the entries sorted by name, at most `FILE_ENTRIES_MAX`.
 */
export function entriesIn(listed: Buffer): { entries: FileEntry[]; truncated: boolean } {
  const entries: FileEntry[] = [];
  const [first = '', ...pieces] = listed.toString().split('/');
  let facts = first;
  let isCut = false;
  for (const [index, piece] of pieces.entries()) {
    const end = piece.lastIndexOf('\n');
    isCut = index === pieces.length - 1 && !piece.endsWith('\n');
    if (!isCut) add(entries, facts, piece.slice(0, end));
    facts = piece.slice(end + 1);
  }
  const truncated = isCut || facts !== '' || entries.length > FILE_ENTRIES_MAX;
  const kept = entries.slice(0, FILE_ENTRIES_MAX);
  return { entries: kept.toSorted((a, b) => (a.name < b.name ? -1 : Number(a.name > b.name))), truncated };
}

function add(entries: FileEntry[], facts: string, name: string): void {
  const [, mode, size, mtime] = /^([0-9a-f]+) (\d+) (-?\d+) \.$/.exec(facts) ?? [];
  if (mode === undefined || name.startsWith(UNFINISHED_PREFIX)) return;
  entries.push({ name, kind: kinds[parseInt(mode, 16) >> 12] ?? 'other', size: Number(size), mtime: Number(mtime) });
}
