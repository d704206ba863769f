import { createWriteStream } from 'node:fs';
import { chmod, lstat, mkdir, realpath, rm } from 'node:fs/promises';
import { dirname, join, relative, sep } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { extract, type Pack } from 'tar-stream';
import { RuntimeRefused } from '../runtime.errors.ts';

const ENTRIES_MAX = 100_000;

/** The target path of an archive's entry, and the folder that it must stay in. */
export interface UnpackTarget {
  target: string;
  home: string;
}

/** Unpacks folders and regular files to the paths that `place` returns. Throws `RuntimeRefused` for any other kind of entry. */
export async function unpack(tar: NodeJS.ReadableStream, place: (name: string) => UnpackTarget): Promise<void> {
  const entries = extract();
  const feeding = pipeline(tar, entries);
  // The loop below ends with the same error and reports it.
  feeding.catch(() => undefined);
  let count = 0;
  for await (const entry of entries) {
    const { name, type, mode } = entry.header;
    if (++count > ENTRIES_MAX) throw new RuntimeRefused(`more than ${ENTRIES_MAX} entries`);
    if (name.split('/').includes('..') || name.includes('\0')) throw new RuntimeRefused('a path of the archive leads out of it');
    const { target, home } = place(name);
    if (type === 'directory') {
      await makeFolder(target, home);
      entry.resume();
    } else if (type === 'file') {
      await makeFolder(dirname(target), home);
      // An existing entry is removed first, so that nothing is written through a link.
      await rm(target, { force: true });
      await pipeline(entry, createWriteStream(target, { flags: 'wx', mode: mode & 0o777 }));
      await chmod(target, mode & 0o777);
    } else throw new RuntimeRefused(`the archive holds something that is neither file nor folder: ${name}`);
  }
  await feeding;
}

/**
 * Creates the folder, one component at a time. Throws `RuntimeRefused`, before anything outside is created, if a symbolic link leads out of
 * its home.
 */
async function makeFolder(folder: string, home: string): Promise<void> {
  await mkdir(home, { recursive: true });
  const realHome = await realpath(home);
  let made = home;
  for (const name of relative(home, folder).split(sep)) {
    made = join(made, name);
    await mkdir(made).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
    // A dangling link has no real path.
    const real = await realpath(made).catch(() => '');
    if (real !== realHome && !real.startsWith(realHome + sep)) throw new RuntimeRefused('the path leads out of the container');
    if (!(await lstat(real)).isDirectory()) throw new RuntimeRefused('a folder of the path is a file');
  }
}

/** Adds a folder or a link, or with `content: ''` an empty file, and waits until the tar has accepted it. */
export function written(tar: Pack, header: Parameters<Pack['entry']>[0], content?: ''): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = (error?: Error | null) => (error ? reject(error) : resolve());
    if (content === undefined) tar.entry(header, done);
    else tar.entry(header, content, done);
  });
}
