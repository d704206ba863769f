import { createReadStream, createWriteStream } from 'node:fs';
import { chmod, lstat, mkdir, readdir, readlink, realpath, rm } from 'node:fs/promises';
import { dirname, join, relative, sep } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { extract, pack, type Pack } from 'tar-stream';
import { RuntimeRefused } from '../runtime.ts';

const ENTRIES_MAX = 100_000;

/** The path of an archive's entry, and the folder that it must not leave. */
export interface Place {
  target: string;
  home: string;
}

/** Unpacks folders and regular files to the paths that `place` returns. Throws `RuntimeRefused` on any other kind of entry. */
export async function unpack(tar: NodeJS.ReadableStream, place: (name: string) => Place): Promise<void> {
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

/** Creates the folder, one part at a time. Throws `RuntimeRefused`, before anything outside is made, if a symbolic link leads out of its home. */
async function makeFolder(folder: string, home: string): Promise<void> {
  await mkdir(home, { recursive: true });
  const realHome = await realpath(home);
  let made = home;
  for (const name of relative(home, folder).split(sep)) {
    made = join(made, name);
    await mkdir(made).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
    // A link that leads nowhere has no real path.
    const real = await realpath(made).catch(() => '');
    if (real !== realHome && !real.startsWith(realHome + sep)) throw new RuntimeRefused('the path leads out of the container');
    if (!(await lstat(real)).isDirectory()) throw new RuntimeRefused('a folder of the path is a file');
  }
}

/** Returns the file or folder as a plain tar whose entries begin with `name`. */
export function packed(path: string, name: string): NodeJS.ReadableStream {
  const tar = pack();
  addTree(tar, path, name).then(
    () => tar.finalize(),
    (error: unknown) => tar.destroy(error as Error),
  );
  return Readable.from(tar);
}

async function addTree(tar: Pack, path: string, name: string): Promise<void> {
  let entries = 0;
  const add = async (from: string, as: string): Promise<void> => {
    if (++entries > ENTRIES_MAX) throw new RuntimeRefused(`more than ${ENTRIES_MAX} entries`);
    const facts = await lstat(from);
    const header = { name: as, mode: facts.mode & 0o777, mtime: facts.mtime };
    if (facts.isDirectory()) {
      await written(tar, { ...header, type: 'directory' });
      for (const child of await readdir(from)) await add(join(from, child), `${as}/${child}`);
    } else if (facts.isSymbolicLink()) {
      await written(tar, { ...header, type: 'symlink', linkname: await readlink(from) });
    } else if (facts.isFile()) await addFile(tar, from, { ...header, size: facts.size });
  };
  await add(path, name);
}

/** Adds a folder or a link, or with `content: ''` an empty file, and waits until it is taken. */
export function written(tar: Pack, header: Parameters<Pack['entry']>[0], content?: ''): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = (error?: Error | null) => (error ? reject(error) : resolve());
    if (content === undefined) tar.entry(header, done);
    else tar.entry(header, content, done);
  });
}

/**
 * Adds a file. If it grows meanwhile, its first `size` bytes are written; if it shrinks, the tar breaks, so that it is not taken as
 * complete.
 */
async function addFile(tar: Pack, path: string, header: Parameters<Pack['entry']>[0] & { size: number }): Promise<void> {
  if (header.size === 0) return written(tar, header, '');
  const entry = tar.entry(header);
  await pipeline(createReadStream(path, { end: header.size - 1 }), entry);
}
