import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';

import { extract } from 'tar-stream';

import type { Labels } from './container.ts';

/** An image that the stand-in has. */
export interface StandInImage {
  id: string;
  names: Set<string>;
  labels: Labels;
  entrypoint: string[];
  /** The files of an imported image, by path without a leading slash; built and pulled images keep none. */
  files: Map<string, Buffer>;
}

/** The most bytes of content that are kept of one imported image. */
const FILES_BYTES_MAX = 16 * 1024 * 1024;

export class StandInImages {
  private readonly byId = new Map<string, StandInImage>();
  private readonly byName = new Map<string, StandInImage>();

  find(nameOrId: string): StandInImage | undefined {
    return this.byName.get(nameOrId) ?? this.byName.get(`${nameOrId}:latest`) ?? this.byId.get(nameOrId);
  }

  all(): Iterable<StandInImage> {
    return this.byId.values();
  }

  /** Adds the image as a pull does: the id follows from the name. */
  pulled(name: string): StandInImage {
    return this.keep(name, name, {}, new Map());
  }

  /** Adds an image from the tar of an import or a build; the id follows from the content. */
  async fromTar(tar: Readable, name: string | null, changes: string[]): Promise<StandInImage> {
    const hash = createHash('sha256');
    const files = new Map<string, Buffer>();
    let size = 0;
    for await (const entry of tar.pipe(extract())) {
      const chunks: Buffer[] = [];
      for await (const chunk of entry) chunks.push(chunk as Buffer);
      const content = Buffer.concat(chunks);
      hash.update(`${entry.header.name}\0${content.length}\0`).update(content);
      size += content.length;
      if (size <= FILES_BYTES_MAX) files.set(entry.header.name.replace(/\/$/, ''), content);
    }
    const dockerfile = [...changes, ...(files.get('Dockerfile')?.toString('utf8').split('\n') ?? [])];
    const labels = Object.fromEntries(dockerfile.flatMap((line) => (/^LABEL (\S+?)=(\S*)/.exec(line) ? [labelOf(line)] : [])));
    const image = this.keep(hash.update(changes.join('\n')).digest('hex'), name, labels, files);
    const entrypoint = dockerfile.find((line) => line.startsWith('ENTRYPOINT '));
    if (entrypoint !== undefined) image.entrypoint = JSON.parse(entrypoint.slice('ENTRYPOINT '.length)) as string[];
    return image;
  }

  tag(image: StandInImage, name: string): void {
    image.names.add(name);
    this.byName.set(name, image);
  }

  remove(image: StandInImage): void {
    this.byId.delete(image.id);
    for (const name of image.names) this.byName.delete(name);
  }

  /** Removes the name, and the image with its last one. */
  untag(name: string): void {
    const image = this.byName.get(name);
    image?.names.delete(name);
    this.byName.delete(name);
    if (image?.names.size === 0) this.remove(image);
  }

  private keep(content: string, name: string | null, labels: Labels, files: Map<string, Buffer>): StandInImage {
    const id = `sha256:${createHash('sha256').update(content).digest('hex')}`;
    const image = this.byId.get(id) ?? { id, names: new Set(), labels, entrypoint: ['program'], files };
    this.byId.set(id, image);
    if (name !== null) this.tag(image, name);
    return image;
  }
}

export function inspectedImage(image: StandInImage): object {
  const { id, names, labels, entrypoint } = image;
  return {
    Id: id,
    RepoTags: [...names],
    RepoDigests: [],
    Config: { Entrypoint: entrypoint, Cmd: null, Env: [], User: '', Labels: labels },
  };
}

export function listedImage({ id, names, labels }: StandInImage): object {
  return { Id: id, ParentId: '', RepoTags: [...names], RepoDigests: [], Labels: labels, Size: 1_000_000, Created: 1_700_000_000 };
}

function labelOf(line: string): [string, string] {
  const [, name = '', value = ''] = /^LABEL (\S+?)=(\S*)/.exec(line) ?? [];
  return [name, value];
}
