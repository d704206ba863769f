import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { chmod, copyFile, lstat, rename, rm, utimes } from 'node:fs/promises';
import type { IncomingMessage, RequestOptions } from 'node:http';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';

import { PrivateAddress } from '../../kernel/network/public-addresses.ts';
import type { FetchBudget } from './fetch-budget.ts';
import { lfsNote, type LfsPointer } from './named-contents.ts';
import type { RepositoryUrl } from './repository-url.ts';
import { credentialHeaders, sendRequest, type Reach } from './source-connection.ts';

const MEDIA_TYPE = 'application/vnd.git-lfs+json';
const OBJECTS_AT_ONCE_MAX = 100;
const RESPONSE_BYTES_MAX = 4 * 1024 * 1024;
const REDIRECTS_MAX = 3;
/** The time after which a silent server is given up, in ms. */
const SILENT_MS = 60_000;
const OTHER_CONTENTS = 'The server sent other contents than the pointers name.';
/** Headers that a server may not choose for a request to another one. */
const ownHeaders = new Set(['host', 'connection', 'content-length', 'transfer-encoding']);

/** The server of Git LFS of a repository. */
export interface LfsServer extends Reach {
  /** The address of the repository for Git LFS, on the repository's own host. */
  endpoint: URL;
  credential: { username: string; password: string } | null;
}

export interface LfsFetch {
  server: LfsServer;
  /** The folder with the unpacked files. */
  directory: string;
  /** A file in a folder of the fetch's own, in which an object is received. */
  temporary: string;
  budget: FetchBudget;
  signal: AbortSignal;
}

/** The contents of these files are not fetched, for a reason that is a sentence for the build log. */
class LfsRefused extends Error {}

interface Download {
  href: URL;
  headers: Record<string, string>;
}

/** Returns the address of a repository for Git LFS, as its clients find it. */
export function lfsEndpoint({ href }: RepositoryUrl): URL {
  return new URL(`${href.replace(/(\.git)?$/, '.git')}/info/lfs`);
}

/**
 * Puts the contents of files in Git LFS in the place of their pointers. Returns sentences for the build log: how many were fetched, and which were not.
 * The objects may come from another server, as the repository's own says: without its credential, and from a public address only.
 */
export async function fetchLfsObjects(fetch: LfsFetch, pointers: readonly LfsPointer[]): Promise<string[]> {
  const files = new Map<string, { size: number; paths: string[] }>();
  const missing = pointers.filter(({ object }) => object === null).map(({ path }) => path);
  for (const { path, object } of pointers) {
    if (object === null) continue;
    const known = files.get(object.oid);
    if (known === undefined) files.set(object.oid, { size: object.size, paths: [path] });
    else known.paths.push(path);
  }
  let reason: string | null = null;
  let count = 0;
  const all = [...files].map(([oid, file]) => ({ oid, ...file }));
  const sum = (sizes: number[]) => sizes.reduce((total, size) => total + size, 0);
  const hasRoom = fetch.budget.tryReplace(sum(all.map(({ size }) => size)), sum(all.map(({ size, paths }) => size * paths.length)));
  if (!hasRoom) reason = 'They are larger than the files of a repository may be.';
  for (let at = 0; at < all.length; at += OBJECTS_AT_ONCE_MAX) {
    const some = all.slice(at, at + OBJECTS_AT_ONCE_MAX);
    const offered = reason === null ? await askFor(fetch, some).catch(reasonOf(fetch.signal)) : reason;
    for (const { oid, size, paths } of some) {
      const download = typeof offered === 'string' ? offered : (offered.get(oid) ?? 'The server does not have them.');
      const failure =
        typeof download === 'string' ? download : await place(fetch, download, { oid, size, paths }).catch(reasonOf(fetch.signal));
      if (failure === null) count += paths.length;
      else for (const path of paths) missing.push(path);
      reason ??= failure;
    }
    if (typeof offered === 'string') reason ??= offered;
  }
  const fetched = count === 0 ? [] : [`Fetched ${count} ${count === 1 ? 'file' : 'files'} in Git LFS`];
  return [...fetched, ...lfsNote(missing, reason)];
}

function reasonOf(signal: AbortSignal): (error: unknown) => string {
  return (error) => {
    signal.throwIfAborted();
    if (error instanceof LfsRefused) return error.message;
    if (error instanceof PrivateAddress) return 'The server of Git LFS has a private address.';
    return 'The server of Git LFS could not be reached, or broke the connection.';
  };
}

/** Asks the server where the objects are. */
async function askFor({ server, signal }: LfsFetch, objects: readonly { oid: string; size: number }[]): Promise<Map<string, Download>> {
  const body = JSON.stringify({
    operation: 'download',
    transfers: ['basic'],
    hash_algo: 'sha256',
    objects: objects.map(({ oid, size }) => ({ oid, size })),
  });
  const headers = { accept: MEDIA_TYPE, 'content-type': MEDIA_TYPE, ...credentialHeaders(server.credential) };
  const url = new URL(`${server.endpoint.href}/objects/batch`);
  const answer = await request(url, server, { method: 'POST', headers, signal }, body);
  if (answer.statusCode !== 200) throw refused(answer);
  let text = '';
  for await (const chunk of answer) {
    text += (chunk as Buffer).toString('latin1');
    if (text.length > RESPONSE_BYTES_MAX) throw new LfsRefused('The server of Git LFS sent too long a response.');
  }
  return offersIn(text, url);
}

interface Offer {
  oid?: unknown;
  actions?: { download?: { href?: unknown; header?: unknown } };
}

function offersIn(text: string, base: URL): Map<string, Download> {
  const offers = new Map<string, Download>();
  try {
    const { objects } = JSON.parse(Buffer.from(text, 'latin1').toString('utf8')) as { objects: Offer[] };
    for (const { oid, actions } of objects) {
      const { href, header } = actions?.download ?? {};
      if (typeof oid !== 'string' || typeof href !== 'string' || !URL.canParse(href, base.href)) continue;
      const headers = Object.entries(header ?? {}).filter(
        ([name, value]) => typeof value === 'string' && !ownHeaders.has(name.toLowerCase()),
      );
      offers.set(oid, { href: new URL(href, base), headers: Object.fromEntries(headers) });
    }
    return offers;
  } catch {
    throw new LfsRefused('The server of Git LFS sent no list of objects.');
  }
}

/** Receives the object and puts it in the place of its pointers. Returns null. Throws `LfsRefused` if it is not what the pointers name. */
async function place(fetch: LfsFetch, download: Download, object: { oid: string; size: number; paths: string[] }): Promise<null> {
  const { directory, temporary, signal } = fetch;
  try {
    await receive(fetch, download, object);
    for (const path of object.paths) {
      signal.throwIfAborted();
      const target = join(directory, path);
      // It is a file of its own, as the commit was unpacked.
      const { mode, mtime } = await lstat(target);
      const copy = `${temporary}-copy`;
      await copyFile(temporary, copy);
      await chmod(copy, mode & 0o777);
      await utimes(copy, mtime, mtime);
      await rename(copy, target);
    }
    return null;
  } finally {
    await rm(temporary, { force: true });
  }
}

async function receive(fetch: LfsFetch, download: Download, { oid, size }: { oid: string; size: number }): Promise<void> {
  const { temporary, budget, signal } = fetch;
  const answer = await open(fetch, download);
  if (answer.statusCode !== 200) throw refused(answer);
  const hash = createHash('sha256');
  let length = 0;
  const checked = async function* (chunks: AsyncIterable<Buffer>) {
    for await (const chunk of chunks) {
      length += chunk.length;
      if (length > size) throw new LfsRefused(OTHER_CONTENTS);
      const refusal = budget.receive(chunk.length);
      if (refusal !== null) throw new LfsRefused(refusal);
      hash.update(chunk);
      yield chunk;
    }
  };
  await pipeline(answer, checked, createWriteStream(temporary, { mode: 0o600 }), { signal });
  if (length !== size || hash.digest('hex') !== oid) throw new LfsRefused(OTHER_CONTENTS);
}

/** Requests an object, by the redirects of its server if need be. */
async function open({ server, signal }: LfsFetch, { href, headers }: Download): Promise<IncomingMessage> {
  let url = href;
  for (let redirects = 0; ; redirects += 1) {
    const isOwn = url.host === server.endpoint.host && url.protocol === server.endpoint.protocol;
    if (!isOwn && url.protocol !== 'https:')
      throw new LfsRefused('The server names an address for them that does not begin with https://.');
    // The headers that the server gives are meant for the address that it names.
    const given = redirects === 0 ? headers : {};
    const named = Object.keys(given).some((name) => name.toLowerCase() === 'authorization');
    const own = isOwn && !named ? credentialHeaders(server.credential) : {};
    const reach = isOwn ? server : { isAllowed: false, resolve: server.resolve };
    const answer = await request(url, reach, { method: 'GET', headers: { ...own, ...given }, signal });
    const { location } = answer.headers;
    if (!isRedirect(answer) || location === undefined) return answer;
    answer.destroy();
    if (redirects === REDIRECTS_MAX || !URL.canParse(location, url.href)) throw new LfsRefused('The server redirects too often.');
    url = new URL(location, url);
  }
}

function request(url: URL, reach: Reach, options: RequestOptions, body = ''): Promise<IncomingMessage> {
  const call = sendRequest(url, reach, options);
  call.setTimeout(SILENT_MS, () => call.destroy(new LfsRefused(`The server of Git LFS was silent for ${SILENT_MS / 1_000} s.`)));
  call.end(body);
  return new Promise((resolve, reject) => {
    call.once('response', resolve);
    // A failure after the response ends the reading of it.
    call.on('error', reject);
    // A server that switches to another protocol is left without an error.
    call.once('close', () => reject(new Error('the connection closed before a response')));
  });
}

function isRedirect({ statusCode = 0 }: IncomingMessage): boolean {
  return [301, 302, 303, 307, 308].includes(statusCode);
}

function refused(answer: IncomingMessage): LfsRefused {
  answer.destroy();
  const { statusCode = 0 } = answer;
  if ([401, 403, 404].includes(statusCode)) return new LfsRefused('The server does not have them, or needs a credential for them.');
  return new LfsRefused(`The server of Git LFS answered with status ${statusCode}.`);
}
