import { join } from 'node:path';
import { readJson, writeJson } from './atomic-file.ts';

/** The record in the folder of an image of the local runtime. It contains no secrets. */
export interface ImageRecord {
  /** The command, in which `PORT_WORD` stands for the port. */
  start: string[];
  /** The environment variables of the agent; they may be absent. */
  environment?: Record<string, string>;
  /** The folder in which a project was built, whose path occurs in scripts of its virtual environment; absent for programs. */
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
