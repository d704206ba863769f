import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type Dockerode from 'dockerode';
import { extract, pack, type Pack } from 'tar-stream';

import { RuntimeRefused, RuntimeUnavailable } from '../../runtime.errors.ts';
import { portErrors } from '../engine/engine.ts';
import { follow } from '../image-sources/registry.ts';
import { execInBuilder, shellCommand, type InsideBuilder } from './builder-exec.ts';

const LAYERS_MAX = 127;
const DIGEST = /^sha256:[0-9a-f]{64}$/;
const send = `cd "$1" && shift && b tar -c -f - "$@"`;

/** An image as BuildKit made it. */
export interface ResultImage {
  /** The text of its configuration. */
  config: string;
  /** The digests of its uncompressed layers, in order. */
  diffIds: readonly string[];
  /** The files of the layers, in the same order. */
  layers: readonly { digest: string; size: number }[];
}

/** Parses the texts of a manifest and of a configuration. Throws `RuntimeRefused`. */
export function resultOf(manifest: string, config: string): ResultImage {
  const { layers = [] } = parsed(manifest) as { layers?: { digest?: unknown; size?: unknown }[] };
  const { rootfs } = parsed(config) as { rootfs?: { diff_ids?: unknown[] } };
  const diffIds = (rootfs?.diff_ids ?? []).map(String);
  const files = layers.map(({ digest, size }) => ({ digest: String(digest), size: Number(size) }));
  if (files.length > LAYERS_MAX) throw new RuntimeRefused(`The image has more than ${LAYERS_MAX} layers.`);
  const areGood =
    files.length === diffIds.length && [...files.map(({ digest }) => digest), ...diffIds].every((digest) => DIGEST.test(digest));
  if (!areGood) throw new RuntimeRefused('The build ended with an image that can’t be read.');
  return { config, diffIds, layers: files };
}

function parsed(text: string): object {
  try {
    return JSON.parse(text) as object;
  } catch {
    throw new RuntimeRefused('The build ended with an image that can’t be read.');
  }
}

/** Returns the number of first layers that one of the images also has, in the same order. */
export function sharedLayers(diffIds: readonly string[], images: readonly (readonly string[])[]): number {
  const shared = images.map((other) => {
    const differs = diffIds.findIndex((diffId, at) => diffId !== other[at]);
    return differs === -1 ? diffIds.length : differs;
  });
  return Math.max(0, ...shared);
}

/** The location of the files of a result. */
export interface ResultPlace {
  inside: InsideBuilder;
  /** The folder with the files of layers, named by their digests. */
  folder: string;
}

/**
 * Loads the image into the engine under the name. Its first `had` layers are omitted, because the engine has them. The names in the archive
 * are ours, whatever the builder sends. Throws `RuntimeRefused`.
 */
export async function loadResult(
  docker: Dockerode,
  place: ResultPlace,
  image: ResultImage,
  { name, had }: { name: string; had: number },
  signal: AbortSignal,
): Promise<void> {
  const wanted = new Map(image.layers.slice(had).map(({ digest, size }) => [digest.replace('sha256:', ''), size]));
  const out = pack();
  const writing = writeArchive(out, place, image, wanted, name);
  let broken: Error | null = null;
  writing.then(
    () => out.finalize(),
    (error: Error) => out.destroy((broken = error)),
  );
  const archive = Readable.from(out, { objectMode: false });
  try {
    await portErrors(null, async () => {
      const options = { quiet: true, abortSignal: signal } as object;
      await follow(await docker.loadImage(archive, options), () => undefined);
    });
  } catch (error) {
    signal.throwIfAborted();
    // If the engine refuses the archive, it gives a reason. Otherwise the archive broke off, and its error says more than the lost
    // connection.
    throw error instanceof RuntimeRefused ? error : (broken ?? error);
  } finally {
    archive.destroy();
    await writing.catch(() => undefined);
  }
}

const fileOf = (digest: string): string => `${digest.replace('sha256:', '')}.tar`;

async function writeArchive(
  out: Pack,
  place: ResultPlace,
  { config, layers }: ResultImage,
  wanted: ReadonlyMap<string, number>,
  name: string,
): Promise<void> {
  const entry = (file: string, text: string) =>
    new Promise<void>((resolve, reject) =>
      out.entry({ name: file, mode: 0o644 }, text, (error) => (error == null ? resolve() : reject(error))),
    );
  await entry('config.json', config);
  const manifest = [{ Config: 'config.json', RepoTags: [name], Layers: layers.map(({ digest }) => fileOf(digest)) }];
  await entry('manifest.json', JSON.stringify(manifest));
  if (wanted.size === 0) return;
  const tar = extract();
  const sent = bytesOf(place, [...wanted.keys()]);
  sent.on('error', (error: Error) => tar.destroy(error));
  const left = new Map(wanted);
  try {
    for await (const file of sent.pipe(tar)) {
      const { name: digest, size, type } = file.header;
      if (type !== 'file' || left.get(digest) !== size)
        throw new RuntimeUnavailable(new Error('a builder sent a file that was not requested'));
      left.delete(digest);
      await pipeline(file as AsyncIterable<Uint8Array>, out.entry({ name: fileOf(digest), size, mode: 0o644 }));
    }
  } finally {
    sent.destroy();
  }
  if (left.size > 0) throw new RuntimeUnavailable(new Error('a builder sent only a part of its layers'));
}

function bytesOf({ inside, folder }: ResultPlace, files: string[]): Readable {
  return Readable.from(stdoutOf(inside, shellCommand(send, folder, ...files)), { objectMode: false });
}

async function* stdoutOf(inside: InsideBuilder, argv: string[]): AsyncGenerator<Buffer> {
  const frames = execInBuilder(inside, argv);
  for (;;) {
    const next = await frames.next();
    if (next.done === true) {
      if (next.value !== 0) throw new RuntimeUnavailable(new Error(`a builder could not send its layers (exit code ${next.value})`));
      return;
    }
    if (next.value.stream === 'stdout') yield next.value.payload;
  }
}
