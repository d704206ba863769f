import { Readable } from 'node:stream';
import type Dockerode from 'dockerode';
import { extract } from 'tar-stream';
import { RuntimeRefused } from '../../runtime.ts';
import { call, CALL_TIMEOUT_MS } from './engine.ts';

const TAR_BLOCK_BYTES = 512;
/** The offset of `ustar` in a tar header. */
const MAGIC_OFFSET_BYTES = 257;
/** The first bytes of gzip, bzip2, xz and zstd data: the engine would decompress a tar that begins with them. */
const compressed = [Buffer.from('1f8b08', 'hex'), Buffer.from('BZh'), Buffer.from('fd377a585a00', 'hex'), Buffer.from('28b52ffd', 'hex')];

/**
 * Returns the same stream after checking that its first block is that of a tar and of nothing else: to decompress data, the engine may run
 * a program found in the container, as root. Throws `RuntimeRefused`.
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

/** Returns our own sentence for the engine's, which names folders of its machine. */
function refusalOf(said: string): string {
  if (/read-?only/i.test(said)) return 'The files can’t be written, because the file system of the container is read-only there.';
  if (/no space left|quota/i.test(said)) return 'The files can’t be written, because there is no room left for them.';
  return 'The files can’t be written: something in the image is in their way, such as a file in the place of a folder, a link or a volume.';
}

/**
 * Throws `RuntimeRefused` unless the container was created and never started. For each call on files the engine mounts the container’s
 * volumes on its own machine, by paths that a program which runs could lead anywhere.
 */
async function checkCreated(container: Dockerode.Container): Promise<void> {
  const { State } = await call(container.id, (abortSignal) => container.inspect({ abortSignal }));
  if (State.Status !== 'created') throw new RuntimeRefused('The engine handles files only of a container that has not been started.');
}

/**
 * Returns the content of the file, and nothing if it is a link. Throws `RuntimeRefused` if it does not exist or has more than `mostBytes`
 * bytes, or the container has ever been started, and `RuntimeUnavailable` if it has not come within the time of a call.
 */
export async function fileIn(container: Dockerode.Container, path: string, mostBytes: number): Promise<Buffer> {
  await checkCreated(container);
  const parts: Buffer[] = [];
  let size = 0;
  // The content is read within the time of the call, since an engine may hang in the middle of it.
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
