import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import type Dockerode from 'dockerode';
import { extract, type Header } from 'tar-stream';
import { RuntimeRefused } from '../../runtime.errors.ts';
import { call, CALL_TIMEOUT_MS, ignoring } from './engine.ts';

const TAR_BLOCK_BYTES = 512;
/** The offset of `ustar` in a tar header. */
const MAGIC_OFFSET_BYTES = 257;
/** The first bytes of gzip, bzip2, xz and zstd data: the engine would decompress a tar that begins with them. */
const compressed = [Buffer.from('1f8b08', 'hex'), Buffer.from('BZh'), Buffer.from('fd377a585a00', 'hex'), Buffer.from('28b52ffd', 'hex')];

/**
 * Returns the same stream after checking that its first block is that of a plain tar: to decompress other data, the engine may run a
 * program found in the container, as root. Throws `RuntimeRefused`.
 */
export async function plainTar(tar: NodeJS.ReadableStream): Promise<Readable> {
  const chunks = (tar as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
  let head = Buffer.alloc(0);
  while (head.length < TAR_BLOCK_BYTES) {
    const { value, done } = await chunks.next();
    if (done) break;
    head = Buffer.concat([head, value]);
  }
  const empty = head.length >= TAR_BLOCK_BYTES && head.subarray(0, TAR_BLOCK_BYTES).every((byte) => byte === 0);
  const plain = empty || head.toString('latin1', MAGIC_OFFSET_BYTES, MAGIC_OFFSET_BYTES + 5) === 'ustar';
  if (!plain || compressed.some((magic) => head.subarray(0, magic.length).equals(magic))) {
    await chunks.return?.();
    throw new RuntimeRefused('Only a plain tar can be unpacked into a container.');
  }
  return Readable.from(rest(head, chunks), { objectMode: false });
}

async function* rest(head: Buffer, chunks: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
  yield head;
  yield* { [Symbol.asyncIterator]: () => chunks };
}

/**
 * Unpacks a plain tar below the path. Throws `RuntimeRefused` for a container that has ever been started, and if the files can't be written
 * there.
 */
export async function filesInto(
  container: Dockerode.Container,
  path: string,
  tar: NodeJS.ReadableStream,
  timeoutMs = CALL_TIMEOUT_MS,
): Promise<void> {
  await checkCreated(container);
  try {
    await call(container.id, (abortSignal) => container.putArchive(tar, { path, abortSignal }), timeoutMs);
  } catch (error) {
    throw error instanceof RuntimeRefused ? new RuntimeRefused(refusalOf(error.message), { cause: error.cause }) : error;
  }
}

/** Returns our own sentence instead of the engine's, which names folders of its machine. */
function refusalOf(said: string): string {
  if (/read-?only/i.test(said)) return 'The files can’t be written, because the file system of the container is read-only there.';
  if (/no space left|quota/i.test(said)) return 'The files can’t be written, because there is no room left for them.';
  return 'The files can’t be written: something in the image is in their way, such as a file in the place of a folder, a link or a volume.';
}

/**
 * Throws `RuntimeRefused` unless the container was created and never started. For each call on files the engine mounts the container’s
 * volumes on its own machine, by paths that a running program could redirect anywhere.
 */
async function checkCreated(container: Dockerode.Container): Promise<void> {
  const { State } = await call(container.id, (abortSignal) => container.inspect({ abortSignal }));
  if (State.Status !== 'created') throw new RuntimeRefused('The engine handles files only of a container that has not been started.');
}

/**
 * Returns the content of the file, which is empty for a link. Throws `RuntimeRefused` if it does not exist or has more than `mostBytes`
 * bytes, or the container has ever been started, and `RuntimeUnavailable` if it does not arrive within the timeout of a call.
 */
export async function fileIn(container: Dockerode.Container, path: string, mostBytes: number): Promise<Buffer> {
  await checkCreated(container);
  const parts: Buffer[] = [];
  let size = 0;
  // The content is read within the timeout of the call, since an engine may hang in the middle of it.
  await call(container.id, async (abortSignal) => {
    const source = (await container.getArchive({ path, abortSignal })) as Readable;
    const tar = extract();
    source.on('error', (error: Error) => tar.destroy(error));
    try {
      for await (const entry of source.pipe(tar)) {
        for await (const chunk of entry) {
          size += (chunk as Buffer).length;
          if (size > mostBytes) throw new RuntimeRefused(`${path} has more than ${mostBytes} bytes.`);
          parts.push(chunk as Buffer);
        }
      }
    } finally {
      // Unread content would keep the connection to the engine open.
      source.destroy();
    }
  });
  return Buffer.concat(parts);
}

/** The owner of a file or folder, and its mode. */
export interface FileOwner {
  uid: number;
  mode: number;
}

/**
 * Returns a function that returns the owner and mode of a path; null if it does not exist. Of a folder, only its own header is read. Throws
 * `RuntimeRefused` for a container that has ever been started.
 */
export async function ownersIn(container: Dockerode.Container): Promise<(path: string) => Promise<FileOwner | null>> {
  await checkCreated(container);
  return async (path) => {
    const read = call(container.id, async (abortSignal) => {
      const source = (await container.getArchive({ path, abortSignal })) as Readable;
      const tar = extract();
      source.on('error', (error: Error) => tar.destroy(error));
      try {
        for await (const { header } of source.pipe(tar)) return ownerOf(header);
      } finally {
        source.destroy();
      }
      throw new RuntimeRefused('The engine does not return the owner of a file.');
    });
    return (await read.catch(ignoring(404))) ?? null;
  };
}

function ownerOf({ uid, mode }: Header): FileOwner {
  if (uid === undefined || mode === undefined) throw new RuntimeRefused('The engine does not return the owner of a file.');
  return { uid, mode };
}

/** The kind bits of a mode, as Go numbers them; a regular file has none of them. */
const KIND_BITS = { directory: 31, link: 27, device: 26, pipe: 25, socket: 24, 'character device': 21, 'irregular file': 19 } as const;

export interface FileStat {
  kind: keyof typeof KIND_BITS | 'file';
  size: number;
  /** The final target of a link in the container; empty if it is not a link. */
  target: string;
}

/**
 * Returns a function that returns the kind of a path itself: a link is not followed, and nothing is opened. It returns null if the path
 * does not exist. Throws `RuntimeRefused` for a container that has ever been started.
 */
export async function statsIn(container: Dockerode.Container): Promise<(path: string) => Promise<FileStat | null>> {
  await checkCreated(container);
  return async (path) => {
    const asked = call(container.id, (abortSignal) => container.infoArchive({ path, abortSignal }) as Promise<unknown>);
    const answer = (await asked.catch(ignoring(404))) as IncomingMessage | undefined;
    if (answer === undefined) return null;
    answer.resume();
    return statOf(answer.headers['x-docker-container-path-stat']);
  };
}

function statOf(header: string | string[] | undefined): FileStat {
  const { mode, size, linkTarget } = JSON.parse(Buffer.from(String(header), 'base64').toString('utf8')) as Record<string, unknown>;
  if (typeof mode !== 'number' || typeof size !== 'number') throw new RuntimeRefused('The engine does not return the kind of a file.');
  const kinds = Object.entries(KIND_BITS) as [keyof typeof KIND_BITS, number][];
  // The number has 32 bits, and JavaScript's bit operators would treat it as negative.
  const kind = kinds.find(([, bit]) => Math.floor(mode / 2 ** bit) % 2 === 1)?.[0] ?? 'file';
  return { kind, size, target: typeof linkTarget === 'string' ? linkTarget : '' };
}
