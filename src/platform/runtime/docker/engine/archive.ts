import { Readable } from 'node:stream';
import type Dockerode from 'dockerode';
import { extract } from 'tar-stream';
import { RuntimeRefused } from '../../runtime.ts';
import { call } from './engine.ts';

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
 * Returns the path as a tar. The container must not run: for each call the engine mounts the container's volumes by their paths, which a
 * running program could lead to the host. Throws `RuntimeRefused` if the path does not exist.
 */
export async function copyOut(container: Dockerode.Container, path: string): Promise<NodeJS.ReadableStream> {
  return call(container.id, (abortSignal) => container.getArchive({ path, abortSignal }));
}

/**
 * Returns the content of the file, and nothing if it is a link. Throws `RuntimeRefused` if it does not exist or has more than `mostBytes`
 * bytes, and `RuntimeUnavailable` if it has not come within the time of a call.
 */
export async function fileIn(container: Dockerode.Container, path: string, mostBytes: number): Promise<Buffer> {
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
