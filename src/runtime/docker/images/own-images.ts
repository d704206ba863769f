/**
 * Tells this installation's images from all others of the engine, lists and removes them.
 *
 * Owns: the tags in the repository `mooring-<instance>`. Does not own the decision which images are needed.
 *
 * O1  An image is ours if it has a tag in our repository: built images get one from their build, and a pulled image gets one for each name
 *     under which we pulled it. An image of a project without a tag has our label.
 * O2  An image that the engine had before our pull stays the operator's.
 * O3  Our own tags are removed last, so an interrupted removal leaves the image known as ours.
 */
import { createHash, randomBytes } from 'node:crypto';
import type Dockerode from 'dockerode';

import { canonicalRepository, digestOfPin, parseImageReference } from '../../../kernel/network/image-reference.ts';
import type { ImageStore, StoredImage, StoredImages } from '../../image-store.ts';
import { RuntimeRefused } from '../../runtime.errors.ts';
import { call, mapBounded, statusOf, until } from '../engine/engine.ts';
import { hasLabels, labels } from '../engine/names.ts';
import { findImage, findPinned } from '../image-sources/registry.ts';

/** The timeout of one removal, in ms. Deployments may wait for it, so it is shorter than that of other calls. */
const REMOVAL_TIMEOUT_MS = 8_000;
/** The beginning of the tag of an image that was built of a Dockerfile. */
const BUILD = 'build-';
/** The kinds of tags of images that deployments pin. Images with only other kinds are used by builds alone. */
const deployedKinds = /^(build|program|project|pulled)-/;
const baseKind = /^base-/;

/** The engine's error after an image was removed while it listed all of them, and the number of attempts and the ms between them. */
const TORN_LIST = /content digest sha256:[0-9a-f]+: not found/;
const LIST_TRIES_MAX = 5;
const LIST_AGAIN_MS = 100;
/** The number of images that are inspected at once. */
const PARALLEL_INSPECTIONS = 8;

/** The tags of each image by its id. */
export type TagsById = ReadonlyMap<string, readonly string[]>;

/** The images of this installation. See O1 to O3. */
export class OwnImages implements ImageStore {
  constructor(
    private readonly docker: Dockerode,
    private readonly instance: string,
    /** Returns a test for the names of outdated images of computers, which are ours too and which nothing new is created from. */
    private readonly outdatedComputers: () => Promise<(name: string) => boolean> = async () => () => false,
  ) {}

  /** O2: Returns the images that the engine has before a pull, for `markPulled`. */
  async beforePull(): Promise<TagsById> {
    return new Map((await this.listed(false)).map((image) => [image.Id, tagsOf(image)]));
  }

  /** O2: Marks an image as ours under the name by which it was pulled, unless the engine had the image, or that name of it, before. */
  async markPulled({ Id }: Dockerode.ImageInspectInfo, reference: string, before: TagsById): Promise<void> {
    const had = before.get(Id);
    const mark = this.tagOf(reference, Id);
    if (had?.includes(mark) === true) return;
    if (had !== undefined && (!had.some((tag) => this.isOurs(tag)) || had.some((tag) => this.tagOf(tag, Id) === mark))) return;
    const [repo = '', tag] = mark.split(':');
    await call(null, (abortSignal) => this.docker.getImage(Id).tag({ repo, tag, abortSignal }));
  }

  /** Returns a new name for the image of a Dockerfile, so that the image is ours as soon as it is built. Names sort by time. */
  nameForBuild(): string {
    return `${this.repository}:${BUILD}${Date.now().toString(16)}${randomBytes(4).toString('hex')}`;
  }

  /**
   * Returns the first name of the built image, and removes its others. An unchanged build results in an earlier image, whose names would
   * add up.
   */
  async keepFirstName({ RepoTags }: Dockerode.ImageInspectInfo, given: string): Promise<string> {
    const names = (RepoTags ?? []).filter((tag) => tag.startsWith(`${this.repository}:${BUILD}`)).toSorted();
    const [kept = given, ...others] = names;
    for (const name of others) await this.tryRemove(name);
    return kept;
  }

  /** Notes, if the image is ours, that a build is about to use it as its base. The engine stores the time of the last tag. */
  async markBase({ Id, RepoTags }: Dockerode.ImageInspectInfo): Promise<void> {
    if (!(RepoTags ?? []).some((tag) => this.isOurs(tag))) return;
    const tag = `base-${shortId(Id)}`;
    await call(null, (abortSignal) => this.docker.getImage(Id).tag({ repo: this.repository, tag, abortSignal }));
  }

  async has(image: string): Promise<boolean> {
    return (await findPinned(this.docker, image)) !== null;
  }

  async list(): Promise<StoredImages> {
    const listed = await this.listed(true);
    const parents = new Set(listed.map(({ ParentId }) => ParentId));
    // An intermediate step of a build has no name, and another image was built on it.
    const images = listed.filter((image) => tagsOf(image).length > 0 || digestsOf(image).length > 0 || !parents.has(image.Id));
    const isOutdated = await this.outdatedComputers();
    const own = images.filter((image) => this.isOwn(image) || (tagsOf(image).length > 0 && tagsOf(image).every(isOutdated)));
    return {
      own: await mapBounded(own, PARALLEL_INSPECTIONS, (image) => this.toStoredImage(image, parents.has(image.Id))),
      ownBytes: bytesOf(own),
      all: { count: images.length, bytes: bytesOf(images) },
    };
  }

  async remove(id: string): Promise<boolean> {
    const found = await findImage(this.docker, id);
    if (found === null) return true;
    if (await this.isUsed(id)) return false;
    const tags = found.RepoTags ?? [];
    const isOutdated = await this.outdatedComputers();
    const ours = tags.filter((tag) => this.isOurs(tag) || isOutdated(tag));
    const pulled = tags.filter((tag) => ours.includes(this.tagOf(tag, id)));
    const isSharedWithOthers = tags.length > ours.length + pulled.length;
    // O3: Our own tags are removed last. On an engine whose ids are digests, each repository appears to have the digest, and removing it
    // under our repository would remove all of our tags at once.
    const digests = isSharedWithOthers ? [] : (found.RepoDigests ?? []).filter((digest) => !this.isOurs(digest));
    const names = [...pulled, ...digests, ...ours];
    for (const name of names.length === 0 ? [id] : names) if (!(await this.tryRemove(name))) return false;
    return true;
  }

  private async tryRemove(name: string): Promise<boolean> {
    try {
      await call(null, (abortSignal) => this.docker.getImage(name).remove({ abortSignal }), REMOVAL_TIMEOUT_MS);
    } catch (error) {
      if (statusOf(error) === 409) return false;
      // The last tag of a repository takes its digests along.
      if (statusOf(error) !== 404) throw error;
    }
    return true;
  }

  /** Returns whether any container was created from the image, or from an image built on it. */
  private async isUsed(id: string): Promise<boolean> {
    const options = { all: true, limit: 1, filters: { ancestor: [id] } };
    return (await call(null, (abortSignal) => this.docker.listContainers({ ...options, abortSignal }))).length > 0;
  }

  private async listed(all: boolean): Promise<Dockerode.ImageInfo[]> {
    const list = () => call(null, (abortSignal) => this.docker.listImages({ all, abortSignal } as Dockerode.ListImagesOptions));
    // With containerd's store the engine fails if an image is removed while it lists them.
    const isTorn = (error: unknown) => error instanceof RuntimeRefused && TORN_LIST.test(error.message);
    const found = await until(
      () =>
        list().catch((error: unknown) => {
          if (isTorn(error)) return null;
          throw error;
        }),
      LIST_TRIES_MAX,
      LIST_AGAIN_MS,
    );
    return found ?? list();
  }

  private async toStoredImage(image: Dockerode.ImageInfo, isBase: boolean): Promise<StoredImage> {
    const tags = tagsOf(image);
    return {
      id: image.Id,
      digests: [image.Id, ...digestsOf(image).map(digestOfPin)],
      names: tags,
      bytes: image.Size,
      builtOnAt: await this.builtOnAt(image),
      isBase,
    };
  }

  private async builtOnAt(image: Dockerode.ImageInfo): Promise<Date | null> {
    const ours = tagsOf(image).filter((tag) => this.isOurs(tag));
    const kinds = ours.map((tag) => tag.slice(this.repository.length + 1));
    if (kinds.some((kind) => baseKind.test(kind))) {
      const found = (await findImage(this.docker, image.Id)) as { Metadata?: { LastTagTime?: string } } | null;
      return new Date(found?.Metadata?.LastTagTime ?? 0);
    }
    return kinds.some((kind) => deployedKinds.test(kind)) ? null : new Date(image.Created * 1_000);
  }

  private isOwn(image: Dockerode.ImageInfo): boolean {
    const tags = tagsOf(image);
    if (tags.length > 0 || digestsOf(image).length > 0) return tags.some((tag) => this.isOurs(tag));
    return hasLabels(image.Labels, { [labels.instance]: this.instance });
  }

  /** Returns whether a name with a tag or a digest belongs to our repository. */
  private isOurs(name: string): boolean {
    return [':', '@'].some((separator) => name.startsWith(`${this.repository}${separator}`));
  }

  private get repository(): string {
    return `mooring-${this.instance}`;
  }

  /** O1: Returns the tag that marks the image as pulled by us under this name. */
  private tagOf(reference: string, id: string): string {
    const name = createHash('sha256').update(canonicalName(reference)).digest('hex').slice(0, 16);
    return `${this.repository}:pulled-${name}-${shortId(id)}`;
  }
}

const shortId = (id: string): string => id.replace('sha256:', '').slice(0, 12);

/** Returns the name in one spelling: `nginx` and `docker.io/library/nginx:latest` are equal. */
function canonicalName(reference: string): string {
  const parsed = parseImageReference(reference);
  if (parsed === null) return reference;
  return `${canonicalRepository(parsed)}${parsed.digest === null ? `:${parsed.tag ?? 'latest'}` : `@${parsed.digest}`}`;
}

/** Engines write `<none>:<none>` for an image without a name. */
const tagsOf = ({ RepoTags }: Dockerode.ImageInfo): string[] => (RepoTags ?? []).filter((tag) => !tag.startsWith('<none>'));
const digestsOf = ({ RepoDigests }: Dockerode.ImageInfo): string[] => (RepoDigests ?? []).filter((digest) => !digest.startsWith('<none>'));

function bytesOf(images: readonly Dockerode.ImageInfo[]): number {
  return images.reduce((sum, { Size }) => sum + Size, 0);
}
