import { readArchive, type Manifest } from './archive.ts';
import { keyColumns, KeyRows } from './key-rows.ts';
import { keyTable } from './tables.ts';

/** A backup that was read completely, and whose every byte matches its manifest. */
export interface CheckedBackup {
  file: string;
  manifest: Manifest;
  /** The subjects that had been shredded before the backup. */
  tombstones: Set<string>;
}

/** Reads the whole file. Throws `DamagedBackup`. */
export async function checkedBackup(file: string): Promise<CheckedBackup> {
  const tombstones = new Set<string>();
  const keys = new KeyRows();
  const parts = readArchive(file);
  for (;;) {
    const next = await parts.next();
    if (next.done === true) {
      const columns = next.value.tables[keyTable]?.columns;
      if (columns !== undefined && columns.slice(0, keyColumns.length).join() !== keyColumns.join())
        throw new Error(`the columns of ${keyTable} in ${file} are not those that this release knows`);
      return { file, manifest: next.value, tombstones };
    }
    if (next.value.table !== keyTable) continue;
    for (const { subject, isTombstone } of keys.push(next.value.content)) if (isTombstone) tombstones.add(subject);
  }
}
