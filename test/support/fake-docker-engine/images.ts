import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';

import { extract } from 'tar-stream';

import type { Labels } from './container.ts';
import { EngineProblem } from './engine-problem.ts';

/**
 * The image stores that engines have. In the graph store an image's id is none of its digests at registries, and `name@digest` is a name
 * like others. In containerd's store the id is the digest, and `name@digest` means the image with this id as long as a tag of that name
 * points at it.
 */
export type ImageStoreKind = 'graph' | 'containerd';

/** An image that the stand-in has. */
export interface FakeImage {
  id: string;
  /** Its tags. */
  names: Set<string>;
  /** The names with a digest by which it was pulled; in the graph store also those that its tags brought along. */
  digests: Set<string>;
  labels: Labels;
  entrypoint: string[];
  /** The files of an imported image, by path without a leading slash; built and pulled images keep none. */
  files: Map<string, Buffer>;
}

/** The most bytes of content that are kept of one imported image. */
const FILES_BYTES_MAX = 16 * 1024 * 1024;

export class FakeImages {
  private readonly byId = new Map<string, FakeImage>();
  private readonly byName = new Map<string, FakeImage>();
  /** The contents that registries serve, by tag and by digest. */
  private readonly served = new Map<string, string>();

  constructor(private readonly store: ImageStoreKind) {}

  find(nameOrId: string): FakeImage | undefined {
    return this.byName.get(nameOrId) ?? this.byName.get(`${nameOrId}:latest`) ?? this.byId.get(nameOrId) ?? this.withDigest(nameOrId);
  }

  all(): Iterable<FakeImage> {
    return this.byId.values();
  }

  /** Makes the registry of that name serve this content under it from now on. */
  publish(name: string, content: string): void {
    this.served.set(name, content).set(digestOf(content), content);
  }

  /** Adds the image as a pull does. An image that was not published is served too, with its name as the content. */
  pulled(name: string): FakeImage {
    const [repository, digest] = name.split('@');
    if (digest === undefined && !this.served.has(name)) this.publish(name, name);
    const content = this.served.get(digest ?? name);
    if (content === undefined) throw new EngineProblem(404, `manifest for ${name} not found: manifest unknown`);
    const image = this.keep(
      this.store === 'graph' ? hashOf(content) : digestOf(content),
      digest === undefined ? name : null,
      {},
      new Map(),
    );
    if (this.store === 'graph') image.digests.add(`${repositoryOf(repository ?? name)}@${digestOf(content)}`);
    else if (digest !== undefined) image.digests.add(name);
    return image;
  }

  /** Adds an image from the tar of an import or a build; the id follows from the content. */
  async fromTar(tar: Readable, name: string | null, changes: string[]): Promise<FakeImage> {
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
    const image = this.keep(hashOf(hash.update(changes.join('\n')).digest('hex')), name, labels, files);
    const command = dockerfile.find((line) => /^(ENTRYPOINT|CMD) /.test(line));
    if (command !== undefined) image.entrypoint = JSON.parse(command.slice(command.indexOf(' '))) as string[];
    return image;
  }

  /** Assigns the tag to the image. Another image may lose it, and is then found by its id. */
  tag(image: FakeImage, name: string): void {
    this.byName.get(name)?.names.delete(name);
    image.names.add(name);
    this.byName.set(name, image);
  }

  /** Removes the names in question, and the image with the last one unless it is used. Throws the engine's error. */
  remove(nameOrId: string, isForced: boolean, isUsed: (image: FakeImage) => boolean): void {
    const image = this.find(nameOrId);
    if (image === undefined) throw new EngineProblem(404, `No such image: ${nameOrId}`);
    const all = [...image.names, ...image.digests];
    const repositories = new Set(all.map(repositoryOf));
    const meant = nameOrId === image.id ? all : this.meantBy(nameOrId, image);
    if (nameOrId === image.id && repositories.size > 1 && !isForced)
      throw new EngineProblem(409, `unable to delete ${nameOrId} (must be forced) - image is referenced in multiple repositories`);
    const isLast = meant.length === all.length;
    if (isLast && !isForced && isUsed(image)) throw new EngineProblem(409, `unable to delete ${nameOrId}: a container is using it`);
    for (const name of meant) {
      image.names.delete(name);
      image.digests.delete(name);
      this.byName.delete(name);
    }
    if (isLast) this.byId.delete(image.id);
  }

  /** Returns the image as the engine describes it, with all of its names. */
  inspect(image: FakeImage): object {
    const { id, labels, entrypoint } = image;
    return {
      Id: id,
      RepoTags: this.tagsOf(image),
      RepoDigests: this.digestsOf(image),
      Config: { Entrypoint: entrypoint, Cmd: null, Env: [], User: '', Labels: labels },
    };
  }

  /** Returns the image as the engine lists it. containerd's store lists only one digest, that of the last name in its order. */
  listed(image: FakeImage): object {
    const { id, labels } = image;
    const digests = this.digestsOf(image);
    const told = this.store === 'graph' ? digests : digests.toSorted(byFullName).slice(-1);
    return {
      Id: id,
      ParentId: '',
      RepoTags: this.tagsOf(image),
      RepoDigests: told,
      Labels: labels,
      Size: 1_000_000,
      Created: 1_700_000_000,
    };
  }

  /** containerd's store lists names with a digest among the tags as well. */
  private tagsOf({ names, digests }: FakeImage): string[] {
    return [...names, ...(this.store === 'graph' ? [] : digests)];
  }

  private digestsOf({ id, names, digests }: FakeImage): string[] {
    if (this.store === 'graph') return [...digests];
    return [...new Set([...names, ...digests].map((name) => `${repositoryOf(name)}@${id}`))];
  }

  /** Returns the names that go with this one. The last tag of a repository takes the repository's digests along. */
  private meantBy(name: string, image: FakeImage): string[] {
    const siblings = [...image.names].filter((each) => repositoryOf(each) === repositoryOf(name));
    const digests = [...image.digests].filter((each) => repositoryOf(each) === repositoryOf(name));
    if (name.includes('@')) return this.store === 'graph' ? [name] : [...siblings, ...digests];
    const tag = image.names.has(name) ? name : `${name}:latest`;
    return siblings.length > 1 ? [tag] : [tag, ...digests];
  }

  private withDigest(name: string): FakeImage | undefined {
    const [, digest] = name.split('@');
    if (digest === undefined) return undefined;
    const images = this.store === 'graph' ? [...this.byId.values()] : [this.byId.get(digest)];
    return images.find((image) => image !== undefined && this.digestsOf(image).includes(`${repositoryOf(name)}@${digest}`));
  }

  private keep(id: string, name: string | null, labels: Labels, files: Map<string, Buffer>): FakeImage {
    const image = this.byId.get(id) ?? { id, names: new Set(), digests: new Set(), labels, entrypoint: ['program'], files };
    this.byId.set(id, image);
    if (name !== null) this.tag(image, name);
    return image;
  }
}

function hashOf(content: string): string {
  return `sha256:${createHash('sha256').update(content).digest('hex')}`;
}

/** Returns the digest of the manifest with which a registry serves the content. */
function digestOf(content: string): string {
  return hashOf(`the manifest of ${content}`);
}

function repositoryOf(name: string): string {
  return name.replace(/@.*$/, '').replace(/:[^/]*$/, '');
}

function byFullName(one: string, other: string): number {
  const [first, second] = [one, other].map((name) => (/^[^/]*[.:]/.test(name) ? name : `docker.io/${name}`));
  return (first ?? '') < (second ?? '') ? -1 : 1;
}

function labelOf(line: string): [string, string] {
  const [, name = '', value = ''] = /^LABEL (\S+?)=(\S*)/.exec(line) ?? [];
  return [name, value];
}
