/** The parts of an image's name, as engines parse it: `[registry/]repository[:tag][@digest]`. */
export interface ImageReference {
  /** The registry; null stands for the engine's default. The host of an IPv6 address has no brackets. */
  registry: { host: string; port: number | null } | null;
  repository: string;
  tag: string | null;
  digest: string | null;
}

/** The registry of names without one, and its other names. */
const DEFAULT_REGISTRY = 'docker.io';
const defaultRegistries: ReadonlySet<string> = new Set([DEFAULT_REGISTRY, 'index.docker.io', 'registry-1.docker.io']);
const LENGTH_MAX = 255;
const hostName = '[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*';
const part = '[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*';
const grammar = new RegExp(
  `^(?:(?<host>${hostName}|\\[[0-9a-fA-F:]+\\])(?::(?<port>[0-9]{1,5}))?/)?(?<path>${part}(?:/${part})*)` +
    '(?::(?<tag>[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}))?(?:@(?<digest>sha256:[0-9a-f]{64}))?$',
);
/** Engines take such a text for the id of an image, even of one that somebody else built. */
const bareId = /^(?:sha256:)?[0-9a-f]{64}$/;

/** Returns the parts, or null if the text is not the name of an image. An image's id, or a digest without a repository, is not a name. */
export function parseImageReference(text: string): ImageReference | null {
  if (text.length > LENGTH_MAX || bareId.test(text)) return null;
  const { host, port, path = '', tag, digest } = grammar.exec(text)?.groups ?? {};
  if (path === '') return null;
  const rest = { tag: tag ?? null, digest: digest ?? null };
  // Like engines, this treats the first part of a name as a registry only if it looks like a host.
  const isRegistry = host !== undefined && (port !== undefined || /[.[A-Z]/.test(host) || host === 'localhost');
  if (!isRegistry) return { registry: null, repository: host === undefined ? path : `${host}/${path}`, ...rest };
  return { registry: { host: host.replace(/^\[|\]$/g, ''), port: port === undefined ? null : Number(port) }, repository: path, ...rest };
}

/** Returns the registry in one canonical spelling, with its port if it has one: that of `nginx` is `docker.io`. */
export function registryHost({ registry }: ImageReference): string {
  if (registry === null) return DEFAULT_REGISTRY;
  const name = registry.host.toLowerCase();
  const host = name.includes(':') ? `[${name}]` : name;
  return canonicalRegistry(registry.port === null ? host : `${host}:${registry.port}`);
}

/** Returns the canonical spelling of a registry's host, which is given in lower case. */
export function canonicalRegistry(host: string): string {
  return defaultRegistries.has(host) ? DEFAULT_REGISTRY : host;
}

/** Returns the repository with its registry in one canonical spelling: `nginx` and `docker.io/library/nginx` are equal. */
export function canonicalRepository(reference: ImageReference): string {
  const host = registryHost(reference);
  const { repository } = reference;
  return `${host}/${host === DEFAULT_REGISTRY && !repository.includes('/') ? `library/${repository}` : repository}`;
}

/**
 * Returns the digest or id of a pinned image, `[name@]digest`. It alone identifies the image, which may be pinned under any of its names.
 */
export function digestOfPin(pin: string): string {
  return pin.slice(pin.lastIndexOf('@') + 1);
}

/** Returns whether the two name the same image: the same repository and digest, or the same tag (by default `latest`). */
export function namesSameImage(one: ImageReference, other: ImageReference): boolean {
  if (canonicalRepository(one) !== canonicalRepository(other)) return false;
  if (one.digest !== null || other.digest !== null) return one.digest === other.digest;
  return (one.tag ?? 'latest') === (other.tag ?? 'latest');
}
