import { createHash } from 'node:crypto';

import { tarOf, type TarEntry } from '../../src/runtime/docker/image-sources/build-context.ts';

const MANIFEST = 'application/vnd.docker.distribution.manifest.v2+json';

export interface Blob {
  type: string;
  content: Buffer;
}

/** The manifests and blobs of a registry by the last part of their paths: a tag or a digest. */
export class RegistryContent {
  readonly blobs = new Map<string, Blob>();

  /** Adds an image with these files in its only layer, or replaces the one with this tag. Returns the names of the new content. */
  async publish(tag: string, files: TarEntry[], command: string[]): Promise<string[]> {
    const layer = Buffer.concat((await tarOf(files).toArray()) as Buffer[]);
    const config = Buffer.from(
      JSON.stringify({
        architecture: { x64: 'amd64' }[process.arch as string] ?? process.arch,
        os: 'linux',
        config: { Cmd: command },
        rootfs: { type: 'layers', diff_ids: [digestOf(layer)] },
      }),
    );
    const part = (mediaType: string, bytes: Buffer) => ({ mediaType, size: bytes.length, digest: this.add(mediaType, bytes) });
    const parts = {
      config: part('application/vnd.docker.container.image.v1+json', config),
      layers: [part('application/vnd.docker.image.rootfs.diff.tar', layer)],
    };
    const manifest = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType: MANIFEST, ...parts }));
    this.blobs.set(tag, { type: MANIFEST, content: manifest });
    return [tag, this.add(MANIFEST, manifest), parts.config.digest, ...parts.layers.map(({ digest }) => digest)];
  }

  private add(type: string, content: Buffer): string {
    const digest = digestOf(content);
    this.blobs.set(digest, { type, content });
    return digest;
  }
}

export function digestOf(content: Buffer): string {
  return `sha256:${createHash('sha256').update(content).digest('hex')}`;
}
