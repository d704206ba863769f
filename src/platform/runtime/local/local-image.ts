import { join } from 'node:path';
import { ImageGone, RuntimeRefused, ShellCommand, type ResolvedImage } from '../runtime.ts';
import { exists, readJson, writeJson } from './atomic-file.ts';

/** The record of an image of the local runtime. It holds no secrets. */
export interface LocalImage {
  start: string[];
  /** The variables that the agent gets; they may be absent. */
  environment?: Record<string, string>;
  /** The folder in which a project was built, which scripts of its virtual environment name; absent for programs. */
  builtIn?: string;
}

const RECORD = 'image.json';

export async function writeLocalImage(folder: string, image: LocalImage): Promise<void> {
  await writeJson(join(folder, RECORD), image);
}

/** Reads the record from the folder of an image, or of a container, which has a copy. Returns null if there is none. */
export function readLocalImage(folder: string): Promise<LocalImage | null> {
  return readJson<LocalImage>(join(folder, RECORD));
}

/** Returns the image of an earlier deployment, whose folder is kept. Throws `ImageGone` if it is gone. */
export async function earlierImage(images: string, earlier: ResolvedImage, log: (line: string) => void): Promise<ResolvedImage> {
  if (!(await exists(join(images, earlier.image)))) throw new ImageGone(earlier);
  log(`Using ${earlier.name} as it was deployed before.`);
  return earlier;
}

/** Throws `ShellCommand` for a shell string, and `RuntimeRefused` for an empty command. */
export function refuseShellString(start: string[]): void {
  if (start.length === 0) throw new RuntimeRefused('the start command is empty');
  const shell = /^(.*\/)?(sh|bash|dash|ash|zsh)$/.test(start[0] ?? '');
  if (shell && start.slice(1).some((word) => /^-\w*c$/.test(word))) throw new ShellCommand(start);
}
