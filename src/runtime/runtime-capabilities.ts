export interface RuntimeCapabilities {
  /** The value is true if memory can be kept while an agent sleeps. */
  freeze: boolean;
  /** The value is true if agents are isolated from each other and from the host. */
  isolation: boolean;
  /** The value is true if `reference` and `dockerfile` images can be run. */
  images: boolean;
}
