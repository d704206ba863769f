import { constants } from 'node:fs';
import { copyFile, cp, link, lstat, mkdir, readdir, readlink, symlink } from 'node:fs/promises';
import { basename, join } from 'node:path';

/** Folders of installed packages. Package managers replace the files in them and never write to existing ones. */
const packageFolders = ['node_modules', '.venv'];
const AT_ONCE = 16;

/** Copies a folder without the top-level entries in `leftOut`, and shares disk blocks if the file system can. */
export async function copyTree(from: string, to: string, leftOut: readonly string[]): Promise<void> {
  const excluded = leftOut.map((name) => join(from, name));
  await cp(from, to, {
    recursive: true,
    verbatimSymlinks: true,
    mode: constants.COPYFILE_FICLONE,
    filter: (path) => !excluded.includes(path),
  });
}

/**
 * Copies the files of an image to a container. The many files of installed packages become hard links, which take neither space nor copying
 * time; all others are copies, which the agent may write to. Files directly in a folder of packages are records that package managers write
 * to, so they are copied too.
 */
export async function copyImage(from: string, to: string, isInPackage = false): Promise<void> {
  await mkdir(to, { recursive: true, mode: 0o700 | (await lstat(from)).mode });
  const entries = await readdir(from, { withFileTypes: true });
  const holdsPackages = isInPackage || packageFolders.includes(basename(from));
  const copyNext = async (): Promise<void> => {
    for (let entry = entries.pop(); entry !== undefined; entry = entries.pop()) {
      const [source, target] = [join(from, entry.name), join(to, entry.name)];
      if (entry.isDirectory()) await copyImage(source, target, holdsPackages);
      else if (entry.isSymbolicLink()) await symlink(await readlink(source), target);
      else if (entry.isFile()) await copyOrLink(source, target, isInPackage);
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, entries.length) }, copyNext));
}

async function copyOrLink(from: string, to: string, mayLink: boolean): Promise<void> {
  if (mayLink) {
    try {
      return await link(from, to);
    } catch (error) {
      // The file system does not support links, or allows no more of this file.
      if (!['EXDEV', 'EMLINK', 'EPERM', 'ENOTSUP'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
    }
  }
  await copyFile(from, to, constants.COPYFILE_FICLONE);
}
