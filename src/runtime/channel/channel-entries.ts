import { UNFINISHED_PREFIX } from '../file-paths.ts';
import { FILE_ENTRIES_MAX, type FileEntry, type FileKind } from '../files.ts';

const FACTS_BYTES = 24;
const kinds: Readonly<Record<number, FileKind>> = { 0o10: 'file', 0o04: 'directory', 0o12: 'link' };

/**
 * Parses entries of a folder: each has its mode (4 bytes), size (8), time (8), the length of its name (4) and the name. The last one may be
 * truncated. Returns them sorted by name, at most `FILE_ENTRIES_MAX`.
 */
export function parseEntries(listed: Buffer): { entries: FileEntry[]; truncated: boolean } {
  const entries: FileEntry[] = [];
  let at = 0;
  while (listed.length - at >= FACTS_BYTES) {
    const end = at + FACTS_BYTES + listed.readUInt32LE(at + 20);
    if (end > listed.length) break;
    const name = listed.toString('utf8', at + FACTS_BYTES, end);
    const size = Number(listed.readBigUInt64LE(at + 4));
    const mtime = Number(listed.readBigInt64LE(at + 12));
    if (!name.startsWith(UNFINISHED_PREFIX))
      entries.push({ name, kind: kinds[(listed.readUInt32LE(at) >> 12) & 0o17] ?? 'other', size, mtime });
    at = end;
  }
  const truncated = at < listed.length || entries.length > FILE_ENTRIES_MAX;
  const kept = entries.slice(0, FILE_ENTRIES_MAX);
  return { entries: kept.toSorted((a, b) => (a.name < b.name ? -1 : Number(a.name > b.name))), truncated };
}
