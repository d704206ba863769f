/** An image that this installation pulled or built for its agents. */
export interface StoredImage {
  id: string;
  /** Its id and its digests at registries, without names: each may be in the pin of a deployment. */
  digests: readonly string[];
  /** Its tags, those that others gave it included. */
  names: readonly string[];
  /** The size in bytes, with the layers that it shares with other images. It is 0 if it was not measured in time. */
  bytes: number;
  /**
   * The last time at which a build was known to use it, for an image from which later builds may continue: a base image, a stage, or the last
   * step of a build that failed. Null for an image that only deployments use.
   */
  builtOnAt: Date | null;
  /** The value is true if other images were built on it, which need its layers. */
  isBase: boolean;
}

/** The images of an engine. */
export interface StoredImages {
  /** The images that this installation pulled or built. */
  own: readonly StoredImage[];
  /** The sizes of these together, in bytes. On Docker a layer that several share counts in each. */
  ownBytes: number;
  /** All images, other people's included, without the steps between the images of builds. */
  all: { count: number; bytes: number };
}

/** The images that a runtime keeps. The calls throw `RuntimeUnavailable`, `RuntimeRefused`. */
export interface ImageStore {
  /** Returns whether the image is there, given as a deployment pinned it. */
  has(image: string): Promise<boolean>;
  list(): Promise<StoredImages>;
  /**
   * Removes an image of `own`, given by its id, or only our names of it if somebody else named it, too. Returns false if a container or
   * another image needs it. It may be repeated after a crash.
   */
  remove(id: string): Promise<boolean>;
}
