import { join } from 'node:path';
import { readJson, writeJson } from './atomic-file.ts';

/** The record in the folder of an image of the local runtime. It holds no secrets. */
export interface ImageRecord {
  start: string[];
  /** The variables that the agent gets; they may be absent. */
  environment?: Record<string, string>;
  /** The folder in which a project was built, which scripts of its virtual environment name; absent for programs. */
  builtIn?: string;
  /** The value is true for the desktop of computers. */
  isDesktop?: boolean;
}

const RECORD = 'image.json';

export async function writeImageRecord(folder: string, record: ImageRecord): Promise<void> {
  await writeJson(join(folder, RECORD), record);
}

/** Reads the record from the folder of an image, or of a container, which has a copy. Returns null if there is none. */
export function readImageRecord(folder: string): Promise<ImageRecord | null> {
  return readJson<ImageRecord>(join(folder, RECORD));
}
