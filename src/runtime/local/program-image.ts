import { randomUUID } from 'node:crypto';
import { mkdir, rename, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { ImageSource, ResolvedImage } from '../image-source.ts';
import { exists } from './atomic-file.ts';
import { contentHash } from './content-hash.ts';
import { copyTree } from './copy-tree.ts';
import { writeImageRecord, type ImageRecord } from './image-record.ts';
import { refuseShellString } from './start-command.ts';

/** The file that describes a template to the service; it is not part of the program. */
const DESCRIPTION = 'template.json';

type ProgramSource = Extract<ImageSource, { kind: 'program' }>;

/** Copies the program's folder to one named by the hash of its content, so that the files of a running program can't change. */
export async function ensureProgramImage(
  images: string,
  source: ProgramSource,
  log: (line: string) => void,
  signal: AbortSignal,
  record: Partial<ImageRecord> = {},
): Promise<ResolvedImage> {
  refuseShellString(source.start);
  const image = await contentHash(source.directory, [source.language, source.start], [DESCRIPTION], signal);
  const resolved = { image, name: `${basename(source.directory)}:${image.slice(0, 12)}`, command: source.start };
  const folder = join(images, image);
  if (await exists(folder)) {
    log(`The program ${basename(source.directory)} is there already (${image.slice(0, 12)}).`);
    return resolved;
  }
  log(`Copying the program ${basename(source.directory)} (${image.slice(0, 12)}).`);
  const temporary = join(images, `.new-${randomUUID()}`);
  try {
    await mkdir(temporary, { recursive: true, mode: 0o700 });
    await copyTree(source.directory, join(temporary, 'files'), [DESCRIPTION]);
    await writeImageRecord(temporary, { ...record, start: source.start });
    signal.throwIfAborted();
    await rename(temporary, folder);
  } catch (error) {
    // A concurrent call created the same image, with the same content.
    if (!(await exists(folder))) throw error;
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
  return resolved;
}
