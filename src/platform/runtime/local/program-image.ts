import { createHash, randomUUID, type Hash } from 'node:crypto';
import { constants, createReadStream } from 'node:fs';
import { cp, lstat, mkdir, readdir, readlink, rename, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { RuntimeRefused, ShellCommand, type ImageSource, type ResolvedImage } from '../runtime.ts';
import { exists, isMissing, writeJson } from './atomic-file.ts';

const FILES_MAX = 50_000;
/** The file that describes a template to the service; it is not part of the program. */
const DESCRIPTION = 'template.json';

type ProgramSource = Extract<ImageSource, { kind: 'program' }>;

/** Copies the program's folder to one named by the hash of its content, so that the files of a running program can't change. */
export async function ensureProgramImage(
  images: string,
  source: ProgramSource,
  log: (line: string) => void,
  signal: AbortSignal,
): Promise<ResolvedImage> {
  refuseShellString(source.start);
  const image = await contentHash(source, signal);
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
    await copyTree(source.directory, join(temporary, 'files'), (path) => path !== join(source.directory, DESCRIPTION));
    await writeJson(join(temporary, 'image.json'), { start: source.start });
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

/** Copies a folder, sharing disk blocks if the file system can. */
export async function copyTree(from: string, to: string, filter?: (path: string) => boolean): Promise<void> {
  await cp(from, to, { recursive: true, verbatimSymlinks: true, mode: constants.COPYFILE_FICLONE, filter });
}

function refuseShellString(start: string[]): void {
  if (start.length === 0) throw new RuntimeRefused('the start command is empty');
  const shell = /^(.*\/)?(sh|bash|dash|ash|zsh)$/.test(start[0] ?? '');
  if (shell && start.slice(1).some((word) => /^-\w*c$/.test(word))) throw new ShellCommand(start);
}

async function contentHash(source: ProgramSource, signal: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  hash.update(JSON.stringify([source.language, source.start]));
  let files = 0;
  const walk = async (relative: string): Promise<void> => {
    for (const name of (await readdir(join(source.directory, relative))).sort()) {
      if (relative === '' && name === DESCRIPTION) continue;
      signal.throwIfAborted();
      if (++files > FILES_MAX) throw new RuntimeRefused(`the program has more than ${FILES_MAX} files`);
      const path = join(relative, name);
      if (await hashEntry(hash, source.directory, path)) await walk(path);
    }
  };
  try {
    await walk('');
  } catch (error) {
    if (isMissing(error)) throw new RuntimeRefused(`the program's folder can't be read: ${basename(source.directory)}`, { cause: error });
    throw error;
  }
  return hash.digest('hex');
}

/** Adds the entry to the hash. Returns true for a folder. */
async function hashEntry(hash: Hash, directory: string, path: string): Promise<boolean> {
  const full = join(directory, path);
  const facts = await lstat(full);
  if (facts.isDirectory()) {
    hash.update(JSON.stringify(['folder', path]));
    return true;
  }
  if (facts.isSymbolicLink()) {
    hash.update(JSON.stringify(['link', path, await readlink(full)]));
    return false;
  }
  if (!facts.isFile()) throw new RuntimeRefused(`the program holds something that is no file: ${path}`);
  hash.update(JSON.stringify(['file', path, (facts.mode & 0o111) !== 0, facts.size]));
  await pipeline(createReadStream(full), async (chunks: AsyncIterable<Buffer>) => {
    for await (const chunk of chunks) hash.update(chunk);
  });
  return false;
}
