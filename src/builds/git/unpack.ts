import { createWriteStream } from 'node:fs';
import { lutimes, mkdir, symlink, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

import { extract, type Header } from 'tar-stream';

import type { FetchBudget } from './fetch-budget.ts';
import { NamedContents } from './named-contents.ts';
import { RepositoryRefused } from './repository-refused.ts';

const PATH_BYTES_MAX = 1_024;
const NAME_BYTES_MAX = 255;
const DEPTH_MAX = 64;
const SHOWN_CHARACTERS_MAX = 120;

/**
 * Unpacks the tar of a commit into an empty folder, which no link leads to. Nothing is written through a link: each file, folder and link is made in a
 * folder that was made here before. Links are made last, and each leads to a place within the folder. Each gets the time of the commit, which is that of
 * its entry. Returns what the commit only names. Throws `RepositoryRefused` for what exceeds the budget, for names that occur twice, and for names and
 * links that could lead out of the folder.
 */
export async function unpackCommit(tar: Readable, directory: string, budget: FetchBudget): Promise<NamedContents> {
  const links = new Map<string, { target: string; time: Date }>();
  const folders = new Map<string, Date>();
  const named = new NamedContents();
  const entries = extract();
  const feeding = pipeline(tar, entries);
  // The failure of the tar also ends the loop below, which throws it.
  feeding.catch(() => undefined);
  for await (const entry of entries) {
    const { header } = entry;
    const path = checkedPath(header.name);
    budget.unpack(header.size);
    // Git lists a folder before its files. Without it a name in a tree of the commit holds a slash, and may lead through a link of another name.
    const parent = dirname(path);
    if (parent !== '.' && !folders.has(parent)) throw badName(path);
    if (header.type === 'symlink') {
      if (links.has(path)) throw duplicatePath(path);
      // The library gives null for an empty target, against its type.
      const { linkname } = header as { linkname: string | null };
      links.set(path, { target: checkedLink(path, linkname ?? ''), time: timeOf(header) });
      await drain(entry as AsyncIterable<Buffer>);
    } else await write(entry as AsyncIterable<Buffer>, header, join(directory, path), { path, named });
    if (header.type === 'directory') folders.set(path, timeOf(header));
  }
  await feeding;
  for (const [path, { target, time }] of links) {
    await symlink(target, join(directory, path)).catch((error: unknown) => rethrow(error, path));
    await lutimes(join(directory, path), time, time);
  }
  // A folder changes with each file that is put into it.
  for (const [path, time] of folders) await utimes(join(directory, path), time, time);
  return named;
}

function timeOf({ mtime }: Header): Date {
  return mtime ?? new Date(0);
}

async function write(
  content: AsyncIterable<Buffer>,
  header: Header,
  to: string,
  { path, named }: { path: string; named: NamedContents },
): Promise<void> {
  const { type, mode } = header;
  try {
    if (type === 'directory') {
      // It fails if anything has the name, a folder or a link to one included.
      await mkdir(to, { mode: 0o755 });
      return await drain(content);
    }
    if (type !== 'file') throw new RepositoryRefused(`The repository has an entry that is no file, folder or link: ${printable(path)}.`);
    const options = { flag: 'wx', flags: 'wx', mode: mode & 0o100 ? 0o755 : 0o644 };
    if (named.reads(path, header.size)) await writeFile(to, named.seen(path, await whole(content)), options);
    else await pipeline(content, createWriteStream(to, options));
    await utimes(to, timeOf(header), timeOf(header));
  } catch (error) {
    rethrow(error, path);
  }
}

async function whole(content: AsyncIterable<Buffer>): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of content) parts.push(part);
  return Buffer.concat(parts);
}

/** Reads an entry without content to its end, without which the next one does not come. */
async function drain(content: AsyncIterable<Buffer>): Promise<void> {
  for await (const _ of content);
}

/** Returns the path without a slash at its end. Throws unless each of its names is a plain one. */
function checkedPath(name: string): string {
  const path = name.replace(/\/$/, '');
  const names = path.split('/');
  const isBad = (part: string) =>
    part === '' || part === '.' || part === '..' || part.toLowerCase() === '.git' || Buffer.byteLength(part) > NAME_BYTES_MAX;
  if (names.length > DEPTH_MAX || Buffer.byteLength(path) > PATH_BYTES_MAX)
    throw new RepositoryRefused(
      `The repository has a path of more than ${DEPTH_MAX} folders or ${PATH_BYTES_MAX} bytes: ${printable(path)}.`,
    );
  // A name that is not UTF-8 is decoded with this replacement.
  if (names.some(isBad) || /[\p{Cc}\ufffd\\]/u.test(path)) throw badName(path);
  return path;
}

/**
 * Returns the target of a link. Throws if it could lead out of the folder. A path may go up only at its beginning, from the link's own
 * folder, which is no link; so it stays within the folder whatever other links it goes through.
 */
function checkedLink(path: string, target: string): string {
  const names = target.split('/');
  const ups = names.findIndex((name) => name !== '..');
  const up = ups === -1 ? names.length : ups;
  const isBad =
    target === '' ||
    target.startsWith('/') ||
    Buffer.byteLength(target) > PATH_BYTES_MAX ||
    up > path.split('/').length - 1 ||
    names.slice(up).includes('..') ||
    /[\p{Cc}\ufffd]/u.test(target);
  if (isBad) throw new RepositoryRefused(`The repository has a link that leads out of it, or could: ${printable(path)}.`);
  return target;
}

function rethrow(error: unknown, path: string): never {
  const code = (error as NodeJS.ErrnoException).code ?? '';
  if (['EEXIST', 'EISDIR', 'ENOTDIR'].includes(code)) throw duplicatePath(path);
  throw error;
}

function badName(path: string): RepositoryRefused {
  return new RepositoryRefused(`The repository has a file name that is refused: ${printable(path)}.`);
}

function duplicatePath(path: string): RepositoryRefused {
  return new RepositoryRefused(`The repository has two files whose names are one here: ${printable(path)}.`);
}

function printable(path: string): string {
  return JSON.stringify(path.slice(0, SHOWN_CHARACTERS_MAX));
}
