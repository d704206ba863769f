import { createHash } from 'node:crypto';
import { posix } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { extract, pack, type Pack } from 'tar-stream';

import { RuntimeRefused } from '../../runtime.errors.ts';
import type { TarEntry } from '../image-sources/build-context.ts';

const FILES_MAX = 2_000;
/** The files that are kept in memory, because one of them is the image's configuration. */
const SMALL_BYTES_MAX = 2 * 1024 * 1024;
const SMALL_BYTES_TOGETHER_MAX = 32 * 1024 * 1024;
const HEAD_BYTES = 4;
/** The folder in which the files of an archive are stored by number, until their digests are known. */
export const PARTS = 'parts';
const formats: [string, string][] = [
  ['1f8b', 'application/vnd.oci.image.layer.v1.tar+gzip'],
  ['28b52ffd', 'application/vnd.oci.image.layer.v1.tar+zstd'],
];
const PLAIN_LAYER = 'application/vnd.oci.image.layer.v1.tar';

/** A file of an archive. */
interface Part {
  number: number;
  digest: string;
  size: number;
  head: string;
  content: Buffer | null;
}

/** An image as an OCI layout. */
export interface Layout {
  /** The digest of its manifest. */
  digest: string;
  /** The small files of the layout. */
  entries: TarEntry[];
  /** The layers: their numbers among the parts, and their final names. */
  moves: { number: number; digest: string }[];
}

const digestOf = (content: string | Buffer): string => createHash('sha256').update(content).digest('hex');

/**
 * Reads the engine's export of one image, whatever the engine's version. Its files are passed on as another tar, under numbers; names of
 * the archive are not used. Once it has been read, `layout` describes how they form an OCI layout.
 */
export function partsOf(archive: Readable): { parts: Readable; layout: Promise<Layout> } {
  const parts = pack();
  const layout = split(archive, parts);
  layout.then(
    () => parts.finalize(),
    (error: Error) => parts.destroy(error),
  );
  return { parts: Readable.from(parts, { objectMode: false }), layout };
}

async function split(archive: Readable, out: Pack): Promise<Layout> {
  const tar = extract();
  archive.on('error', (error: Error) => tar.destroy(error));
  const found = new Map<string, Part>();
  const links = new Map<string, string>();
  let kept = 0;
  try {
    for await (const entry of archive.pipe(tar)) {
      const { name, type, linkname, size } = entry.header;
      if (found.size + links.size >= FILES_MAX) throw new RuntimeRefused('A base image has too many files in its export.');
      if (type === 'symlink' || type === 'link') links.set(name, posix.join(posix.dirname(name), linkname ?? ''));
      const isKept = type === 'file' && size <= SMALL_BYTES_MAX && kept + size <= SMALL_BYTES_TOGETHER_MAX;
      if (isKept) kept += size;
      if (type === 'file') found.set(name, await copied(entry as AsyncIterable<Uint8Array>, { number: found.size, size, isKept }, out));
      else entry.resume();
    }
  } finally {
    archive.destroy();
  }
  return layoutOf(found, links);
}

async function copied(
  entry: AsyncIterable<Uint8Array>,
  { number, size, isKept }: { number: number; size: number; isKept: boolean },
  out: Pack,
): Promise<Part> {
  const hash = createHash('sha256');
  const chunks: Buffer[] = [];
  let head = Buffer.alloc(0);
  const observed = async function* (source: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
    for await (const chunk of source) {
      const bytes = Buffer.from(chunk);
      hash.update(bytes);
      if (head.length < HEAD_BYTES) head = Buffer.concat([head, bytes.subarray(0, HEAD_BYTES)]);
      if (isKept) chunks.push(bytes);
      yield bytes;
    }
  };
  await pipeline(entry, observed, out.entry({ name: `${PARTS}/${number}`, size, mode: 0o644 }));
  return {
    number,
    digest: hash.digest('hex'),
    size,
    head: head.toString('hex', 0, HEAD_BYTES),
    content: isKept ? Buffer.concat(chunks) : null,
  };
}

function layoutOf(found: ReadonlyMap<string, Part>, links: ReadonlyMap<string, string>): Layout {
  const partAt = (name: string): Part => {
    const part = found.get(name) ?? found.get(links.get(name) ?? '');
    if (part === undefined) throw new RuntimeRefused('The engine exported a base image without one of its layers.');
    return part;
  };
  const { Config, Layers } = manifestOf(found.get('manifest.json')?.content ?? null);
  const config = partAt(Config);
  if (config.content === null) throw new RuntimeRefused('A base image has a configuration of more than 2 MiB.');
  const layers = Layers.map(partAt);
  const describe = (mediaType: string, digest: string, size: number) => ({ mediaType, digest: `sha256:${digest}`, size });
  const manifest = JSON.stringify({
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    config: describe('application/vnd.oci.image.config.v1+json', config.digest, config.size),
    layers: layers.map(({ head, digest, size }) =>
      describe(formats.find(([magic]) => head.startsWith(magic))?.[1] ?? PLAIN_LAYER, digest, size),
    ),
  });
  const digest = digestOf(manifest);
  const index = JSON.stringify({
    schemaVersion: 2,
    manifests: [describe('application/vnd.oci.image.manifest.v1+json', digest, Buffer.byteLength(manifest))],
  });
  const file = (name: string, content: string | Buffer): TarEntry => ({ name, type: 'file', mode: 0o644, content });
  return {
    digest,
    moves: [...new Map(layers.map(({ number, digest: layer }) => [layer, { number, digest: layer }])).values()],
    entries: [
      file('oci-layout', '{"imageLayoutVersion":"1.0.0"}'),
      file('index.json', index),
      { name: 'blobs', type: 'directory', mode: 0o755 },
      { name: 'blobs/sha256', type: 'directory', mode: 0o755 },
      file(`blobs/sha256/${config.digest}`, config.content),
      file(`blobs/sha256/${digest}`, manifest),
    ],
  };
}

function manifestOf(content: Buffer | null): { Config: string; Layers: string[] } {
  const [first] = content === null ? [] : (JSON.parse(content.toString('utf8')) as { Config?: string; Layers?: string[] }[]);
  if (first?.Config === undefined) throw new RuntimeRefused('The engine exported a base image without its manifest.');
  return { Config: first.Config, Layers: first.Layers ?? [] };
}
