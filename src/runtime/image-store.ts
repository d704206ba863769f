/** An image that this installation pulled or built for its agents. */
export interface StoredImage {
  id: string;
  /** The image's id and its digests at registries, without names: each may be in the pin of a deployment. */
  digests: readonly string[];
  /** The image's tags, including those that others assigned. */
  names: readonly string[];
  /** The size in bytes, including the layers that it shares with other images. It is 0 if it was not measured in time. */
  bytes: number;
  /**
   * The last known time at which a build used the image, if later builds may continue from it: a base image, a stage, or the last step of a
   * failed build. Null for an image that only deployments use.
   */
  builtOnAt: Date | null;
  /** The value is true if other images are built on this one and need its layers. */
  isBase: boolean;
}

/** The images of an engine. */
export interface StoredImages {
  /** The images that this installation pulled or built. */
  own: readonly StoredImage[];
  /** The total size of these images in bytes. On Docker a shared layer counts in each image. */
  ownBytes: number;
  /** All images, including other people's, without the intermediate steps of builds. */
  all: { count: number; bytes: number };
}

/** The images that a runtime stores. The calls throw `RuntimeUnavailable` and `RuntimeRefused`. */
export interface ImageStore {
  /** Returns whether the image exists, identified as a deployment pinned it. */
  has(image: string): Promise<boolean>;
  list(): Promise<StoredImages>;
  /**
   * Removes an image of `own`, given by its id, or only our names of it if others named it, too. Returns false if a container or another
   * image needs it. It may be repeated after a crash.
   */
  remove(id: string): Promise<boolean>;
}
